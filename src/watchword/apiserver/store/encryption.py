"""Keeps the bodies of Secrets encrypted on disk; everywhere else they are as before."""

import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from watchword.apiserver.store.model import StoreOpenError
from watchword.apiserver.store.snapshot import Row
from watchword.pki.encryption import EncryptionKeys, is_encrypted, parse_encryption_keys
from watchword.pki.errors import DecryptionFailed, KeyRefused

ENCRYPTED_BUCKETS = frozenset({"secrets"})


class RowCipher:
    """Encrypts and decrypts rows of the log; without keys it only notices that some are needed."""

    def __init__(self, keys: EncryptionKeys | None) -> None:
        self._keys = keys

    def encrypt(self, row: Row) -> Row:
        if self._keys is None or row.bucket not in ENCRYPTED_BUCKETS:
            return row
        return replace(row, body=self._keys.encrypt(row.body, _context(row)))

    def decrypt(self, row: Row) -> Row:
        """Return the row as it was written; raises `StoreOpenError` when no key fits."""
        if row.bucket not in ENCRYPTED_BUCKETS or not is_encrypted(row.body):
            return row
        if self._keys is None:
            raise StoreOpenError("the data file holds encrypted Secrets: give their key with --encryption-key-file")
        try:
            return replace(row, body=self._keys.decrypt(row.body, _context(row)))
        except DecryptionFailed as cause:
            raise StoreOpenError(f"cannot decrypt secrets/{row.path}: {cause}") from cause

    def outdated(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows anew that are stored in plain text or under an older key."""
        if self._keys is None:
            return []
        keys = self._keys
        stale = (row for row in rows if row.bucket in ENCRYPTED_BUCKETS and not keys.is_current(row.body))
        return [self.encrypt(self.decrypt(row)) for row in stale]


def read_encryption_keys(path: Path) -> EncryptionKeys:
    """Read a key file that only its owner may read; raises `StoreOpenError`."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise StoreOpenError(f"key file {path} is open to other users: run chmod 600 {path} and start again")
        return parse_encryption_keys(path.read_bytes())
    except OSError as cause:
        raise StoreOpenError(f"key file {path} cannot be read: {(cause.strerror or '').lower()}") from cause
    except KeyRefused as cause:
        raise StoreOpenError(f"key file {path} cannot be used: {cause}") from cause


def _context(row: Row) -> bytes:
    return f"{row.bucket}/{row.path}".encode()
