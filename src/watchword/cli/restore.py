"""`watchword restore`: puts a control plane of this machine, or a hub, back as a backup has it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchword.admin.apply import names_of
from watchword.admin.backup_archive import Backup, BackupKey, read_backup
from watchword.admin.hub_restore import HubRestorer
from watchword.cli.administrator_events import HUB, administrator_events
from watchword.cli.backup import backup_key_options
from watchword.cli.common_options import change_options, confirm, fleet_directory_of
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import file_option, flag, folder_option
from watchword.cli.output import echo
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run

if TYPE_CHECKING:
    from watchword.local.backup import Restore

SHOWN = 20


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@folder_option("--data-dir", help="Data directory to create; by default that of `up`.")
@file_option("--encryption-key-file", help="Key of the Secrets in the data directory, where they are encrypted.")
@flag("--hub", help="Restore a hub on the cluster of the kubeconfig.")
@flag("--replace", help="Overwrite existing state; an existing data directory is renamed, not deleted.")
@flag("--undo-revocations", help="Restore also what was denied, revoked or deleted since the backup to end access.")
@change_options("Print what would change without changing anything.", asks=True)
@backup_key_options
@connection_options
def command(  # noqa: PLR0913 - one argument per flag
    connection: ClusterConnection,
    file: Path,
    data_dir: Path | None,
    encryption_key_file: Path | None,
    key: BackupKey,
    *,
    hub: bool,
    replace: bool,
    undo_revocations: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Restore a control plane of this machine, or a hub, from a backup.

    Clients that saw later revisions are told to list again, and no revision is used twice. Objects that were deleted
    since the backup are listed before they exist again; what was denied, or deleted to end access, stays so. Agents
    keep their credentials, because the keys are in the backup of a control plane; a hub on another cluster has other
    keys, and its clusters join again.
    """
    if hub and data_dir is not None:
        raise click.UsageError("give --hub or --data-dir, not both")
    backup = read_backup(file, key)
    question = _Question(dry_run=dry_run, yes=yes)
    if hub:
        run(_restore_hub(connection, backup, question, replace=replace, undo_revocations=undo_revocations))
    else:
        from watchword.apiserver.store.encryption import RowCipher, read_encryption_keys
        from watchword.local.backup import prepare_restore

        cipher = RowCipher(read_encryption_keys(encryption_key_file) if encryption_key_file is not None else None)
        now, target = SystemClock().now(), fleet_directory_of(data_dir).path
        options = {"replace": replace, "undo_revocations": undo_revocations}
        with prepare_restore(target, backup, cipher=cipher, now=now, **options) as restore:
            _restore_directory(restore, question, now)


class _Question:
    """Shows what changes, and asks."""

    def __init__(self, *, dry_run: bool, yes: bool) -> None:
        self.dry_run = dry_run
        self._yes = yes

    def show(self, title: str, names: Sequence[str]) -> None:
        if names:
            more = f"\n  … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            echo(f"{title}:\n  " + "\n  ".join(names[:SHOWN]) + more)

    def confirm(self, what: str) -> None:
        confirm(f"{what}?", f"this would {what[0].lower()}{what[1:]}", yes=self._yes)


def _restore_directory(restore: Restore, question: _Question, now: datetime) -> None:
    from watchword.local.backup import carry_out

    question.show("denied or revoked since the backup, stay so", restore.differences.kept)
    question.show("deleted since the backup, exist again", restore.differences.returning)
    question.show("created since the backup, are gone", restore.differences.lost)
    question.show("changed since the backup, are as before", restore.differences.undone)
    if question.dry_run:
        return
    target = restore.target
    if target.exists() and any(target.iterdir()):
        question.confirm(f"Replace what is in {target}")
    aside = carry_out(restore, now)
    if aside is not None:
        echo(f"moved the earlier data to {aside}")
    echo(f"restored {target}; start it as before, and clients list everything again")


async def _restore_hub(
    connection: ClusterConnection, backup: Backup, question: _Question, *, replace: bool, undo_revocations: bool
) -> None:
    async with connection.client() as client:
        restorer = HubRestorer(client, undo_revocations=undo_revocations)
        plan = await restorer.plan(backup, replace=replace, now=SystemClock().now())
        question.show("deleted since the backup, exist again", plan.returning)
        question.show("changed since the backup, are as before", names_of(plan.changed))
        question.show("not restored", plan.skipped)
        if question.dry_run:
            echo(f"would create {len(plan.created)} objects and change {len(plan.changed)}")
            return
        if plan.on_existing_hub:
            question.confirm("Change this hub")
        async with administrator_events(client, "restore") as (events, administrator):
            await restorer.carry_out(plan)
            said = f"created {len(plan.created)} objects and changed {len(plan.changed)}"
            saved = f"{backup.header.created:%Y-%m-%d %H:%MZ}"
            events.normal(HUB, "HubRestored", f"{administrator} restored the backup of {saved}: {said}")
    echo(f"{said}; run `watchword init --deploy` to start the hub")
