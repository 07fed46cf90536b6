"""`watchword backup`: saves a control plane of this machine, or a hub, in one file."""

from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from watchword.admin.backup_archive import BackupHeader, BackupKey, Encryption, write_backup
from watchword.admin.hub_backup import HubBackup
from watchword.api.sensitive import Sensitive
from watchword.cli.connection_options import ClusterConnection, cluster_options
from watchword.cli.options import NewFile, flag, fleet_directory_of, folder_option, gathered
from watchword.cli.output import show_result
from watchword.cli.secret_input import SecretReader
from watchword.health.formatting import format_count
from watchword.runtime.clock import SystemClock

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


def read_backup_key(key_file: Path | None, passphrase_file: Path | None) -> BackupKey:
    """Return what encrypts the backup; `click.UsageError` when both are given or the passphrase is empty."""
    from watchword.apiserver.store.encryption import read_encryption_keys

    if key_file is not None and passphrase_file is not None:
        raise click.UsageError("give --key-file or --passphrase-file, not both")
    if key_file is not None:
        return BackupKey(keys=read_encryption_keys(key_file))
    if passphrase_file is None:
        return BackupKey()
    text = SecretReader().read("-" if str(passphrase_file) == "-" else f"@{passphrase_file}")
    return BackupKey(passphrase=Sensitive(text))


backup_key_options = gathered(
    "key",
    read_backup_key,
    click.option(
        "--key-file", type=_FILE, help="Encrypt with the first key of this file (base64, 32 bytes, one per line)."
    ),
    click.option(
        "--passphrase-file", type=_FILE, help="Encrypt with the passphrase in this file; - reads standard input."
    ),
)
"""Adds the options; the command gets `key`, a `BackupKey`."""


@click.command("backup")
@click.argument("file", type=NewFile())
@folder_option(
    "--data-dir", help="The data directory of `apiserver` or `up`, running or stopped; by default that of `up`."
)
@flag("--hub", help="Back up the hub's objects on the cluster of the kubeconfig instead of a data directory.")
@flag("--plain", help="With --hub: write Secrets unencrypted.")
@backup_key_options
@cluster_options(output=True)
async def command(connection: ClusterConnection, file: Path, key: BackupKey, output: str, **flags: Any) -> None:
    """Back up a control plane of this machine, or a hub, to one file.

    Each control plane is saved as of one revision, also while it is running, with its keys. The file is readable by
    its owner alone; --key-file or --passphrase-file encrypts it. The backup of a hub holds join tokens, so it is
    encrypted, or --plain is given.
    """
    if flags["hub"] and flags["data_dir"] is not None:
        raise click.UsageError("give --hub or --data-dir, not both")
    if flags["hub"] and not flags["plain"] and key.method is Encryption.NONE:
        raise click.UsageError(
            "the backup of a hub holds Secrets: give --key-file or --passphrase-file, or --plain to leave them readable"
        )
    now = SystemClock().now()
    if flags["hub"]:
        async with connection.client() as client:
            made = await HubBackup(client).run(now)
    else:
        from watchword.local.backup import back_up_directory

        made = await back_up_directory(fleet_directory_of(flags["data_dir"]).path, now)
    header = write_backup(file, made, key)
    show_result(_document(file, header), output, lambda: _describe(file, header, key))


def _describe(file: Path, header: BackupHeader, key: BackupKey) -> str:
    secrecy = "not encrypted: keep it as you keep the keys in it" if key.method is Encryption.NONE else "encrypted"
    parts = [(part, f" at revision {part.revision}" if part.revision else "") for part in header.contents]
    saved = [f"saved {part.name}{at}: {format_count(part.objects, 'object')}" for part, at in parts]
    return "\n".join([*saved, f"wrote {file} ({secrecy})"])


def _document(file: Path, header: BackupHeader) -> dict[str, object]:
    return {
        "file": str(file),
        "created": header.created.isoformat(),
        "encryption": str(header.encryption),
        "contents": [asdict(part) for part in header.contents],
    }
