"""`--key-file` and `--passphrase-file`: what encrypts a backup, the same for `backup` and `restore`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from watchword.admin.backup_archive import BackupKey

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


def backup_key_options(command: F) -> F:
    """Add the options; the command gets `key`, a `BackupKey`."""

    @click.option(
        "--key-file", type=_FILE, help="Encrypt with the first key of this file (base64, 32 bytes, one per line)."
    )
    @click.option("--passphrase-file", type=_FILE, help="Encrypt with the passphrase in this file; - reads it.")
    @wraps(command)
    def with_key(*args: Any, key_file: Path | None, passphrase_file: Path | None, **kwargs: Any) -> Any:
        return command(*args, key=read_backup_key(key_file, passphrase_file), **kwargs)

    return with_key  # type: ignore[return-value]  # a command stays a command


def read_backup_key(key_file: Path | None, passphrase_file: Path | None) -> BackupKey:
    """Return what encrypts the backup; `click.UsageError` when both are given or the passphrase is short."""
    from watchword.admin.backup_archive import BackupKey
    from watchword.api.sensitive import Sensitive
    from watchword.apiserver.store.encryption import read_encryption_keys
    from watchword.cli.secret_input import SecretReader

    if key_file is not None and passphrase_file is not None:
        raise click.UsageError("give --key-file or --passphrase-file, not both")
    if key_file is not None:
        return BackupKey(keys=read_encryption_keys(key_file))
    if passphrase_file is None:
        return BackupKey()
    text = SecretReader().read("-" if str(passphrase_file) == "-" else f"@{passphrase_file}")
    if not text:
        raise click.UsageError("the passphrase is empty: write one to the file, or use --key-file")
    return BackupKey(passphrase=Sensitive(text))
