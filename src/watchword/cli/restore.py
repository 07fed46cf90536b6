"""`watchword restore`: puts a control plane of this machine, or a hub, back as a backup has it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from watchword.admin.apply import names_of
from watchword.admin.backup_archive import Backup, BackupKey, read_backup
from watchword.admin.hub_restore import HubRestorer
from watchword.cli.administrator_events import HUB, administrator_events
from watchword.cli.backup import backup_key_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import change_options, file_option, flag, fleet_directory_of, folder_option
from watchword.cli.output import confirm, echo, interruptible
from watchword.runtime.clock import SystemClock

SHOWN = 20


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@folder_option("--data-dir", help="Data directory to create; by default that of `up`.")
@file_option("--encryption-key-file", help="File with the key that encrypts Secrets in the data directory.")
@flag("--hub", help="Restore a hub on the cluster of the kubeconfig.")
@flag("--replace", help="Overwrite existing state; an existing data directory is renamed, not deleted.")
@flag("--undo-revocations", help="Also restore access that was denied, revoked or deleted since the backup.")
@change_options("Print what would change without changing anything.", asks=True)
@backup_key_options
@connection_options
async def command(connection: ClusterConnection, file: Path, key: BackupKey, **flags: Any) -> None:
    """Restore a control plane of this machine, or a hub, from a backup.

    Clients that saw later revisions are told to list again, and no revision is used twice. Objects that were deleted
    since the backup are listed before they exist again; access that was denied, revoked or deleted stays so. Agents
    keep their credentials, because the keys are in the backup of a control plane; a hub on another cluster has other
    keys, and its clusters join again.
    """
    if flags["hub"] and flags["data_dir"] is not None:
        raise click.UsageError("give --hub or --data-dir, not both")
    backup = read_backup(file, key)
    if flags["hub"]:
        await _restore_hub(connection, backup, flags)
    else:
        with interruptible():
            _restore_directory(backup, flags)


def _show(title: str, names: Sequence[str]) -> None:
    if names:
        more = f"\n  … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        echo(f"{title}:\n  " + "\n  ".join(names[:SHOWN]) + more)


def _restore_directory(backup: Backup, flags: dict[str, Any]) -> None:
    from watchword.apiserver.store.encryption import RowCipher, read_encryption_keys
    from watchword.local.backup import carry_out, prepare_restore

    keys = flags["encryption_key_file"]
    cipher = RowCipher(read_encryption_keys(keys) if keys is not None else None)
    now, target = SystemClock().now(), fleet_directory_of(flags["data_dir"]).path
    options = {"replace": flags["replace"], "undo_revocations": flags["undo_revocations"]}
    with prepare_restore(target, backup, cipher=cipher, now=now, **options) as restore:
        _show("denied or revoked since the backup, stay so", restore.differences.kept)
        _show("deleted since the backup, exist again", restore.differences.returning)
        _show("created since the backup, are gone", restore.differences.lost)
        _show("changed since the backup, are as before", restore.differences.undone)
        if flags["dry_run"]:
            return
        if target.exists() and any(target.iterdir()):
            confirm(f"Replace what is in {target}?", f"this would replace what is in {target}", yes=flags["yes"])
        aside = carry_out(restore, now)
        if aside is not None:
            echo(f"moved the earlier data to {aside}")
        echo(f"restored {target}; start it as before, and clients list everything again")


async def _restore_hub(connection: ClusterConnection, backup: Backup, flags: dict[str, Any]) -> None:
    async with connection.client() as client:
        restorer = HubRestorer(client, undo_revocations=flags["undo_revocations"])
        plan = await restorer.plan(backup, replace=flags["replace"], now=SystemClock().now())
        _show("deleted since the backup, exist again", plan.returning)
        _show("changed since the backup, are as before", names_of(plan.changed))
        _show("not restored", plan.skipped)
        if flags["dry_run"]:
            echo(f"would create {len(plan.created)} objects and change {len(plan.changed)}")
            return
        if plan.on_existing_hub:
            confirm("Change this hub?", "this would change this hub", yes=flags["yes"])
        async with administrator_events(client, "restore") as (events, administrator):
            await restorer.carry_out(plan)
            said = f"created {len(plan.created)} objects and changed {len(plan.changed)}"
            saved = f"{backup.header.created:%Y-%m-%d %H:%MZ}"
            events.normal(HUB, "HubRestored", f"{administrator} restored the backup of {saved}: {said}")
    echo(f"{said}; run `watchword init --deploy` to start the hub")
