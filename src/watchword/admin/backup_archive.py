"""The file of a backup: one line that describes it, then a compressed tar archive, encrypted on request."""

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath

import msgspec

from watchword import __version__
from watchword.admin.errors import InvalidInput, OperationRefused
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube.files import read_small_file, write_private_file
from watchword.pki.encryption import EncryptionKeys
from watchword.pki.errors import DecryptionFailed

KIND, FORMAT = "watchword-backup", 1
LARGEST_FILE = 2**31 - 1  # what AES-GCM takes in one piece
_SALT_BYTES = 16
_SCRYPT_COST = 2**15  # 32 MiB and about a tenth of a second for each guess of a passphrase


class Subject(StrEnum):
    """What a backup holds."""

    DATA_DIRECTORY = "data-directory"
    HUB = "hub"


class Encryption(StrEnum):
    """How the archive in a backup is encrypted."""

    NONE = "none"
    KEY_FILE = "key-file"
    PASSPHRASE = "passphrase"  # noqa: S105 - the name of a method


class BackupContent(msgspec.Struct, frozen=True):
    """One part of a backup: a control plane, or the objects of a hub."""

    name: str
    objects: int
    revision: int = 0


class BackupHeader(msgspec.Struct, frozen=True):
    """The first line of the file; it is never secret, and the encryption protects it against changes."""

    subject: Subject
    created: datetime
    contents: tuple[BackupContent, ...]
    kind: str = KIND
    format: int = FORMAT
    release: str = __version__
    encryption: Encryption = Encryption.NONE
    salt: str = ""
    size: int = 0
    sha256: str = ""


class BackupKey(HiddenFields, frozen=True):
    """What encrypts a backup: keys of a key file, or a passphrase; neither leaves it in plain text."""

    hidden = ("keys",)

    keys: EncryptionKeys | None = None
    passphrase: Sensitive[str] | None = None

    @property
    def method(self) -> Encryption:
        if self.keys is not None:
            return Encryption.KEY_FILE
        return Encryption.PASSPHRASE if self.passphrase is not None else Encryption.NONE

    def keys_for(self, salt: str) -> EncryptionKeys:
        """Return the keys; a passphrase is stretched with the salt of the backup."""
        if self.keys is not None:
            return self.keys
        assert self.passphrase is not None  # the caller compared the methods
        secret = self.passphrase.reveal().encode()
        stretched = hashlib.scrypt(secret, salt=bytes.fromhex(salt), n=_SCRYPT_COST, r=8, p=1, maxmem=2**26, dklen=32)
        return EncryptionKeys([Sensitive(stretched)])


class Backup(HiddenFields, frozen=True):
    """A header and the files behind it."""

    hidden = ("files",)

    header: BackupHeader
    files: Mapping[str, bytes]


def write_backup(path: Path, backup: Backup, key: BackupKey) -> BackupHeader:
    """Write the file in one step, readable by its owner alone; return its header."""
    salt = os.urandom(_SALT_BYTES).hex() if key.method is Encryption.PASSPHRASE else ""
    header = msgspec.structs.replace(backup.header, encryption=key.method, salt=salt)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in sorted(backup.files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    payload = gzip.compress(buffer.getvalue(), mtime=0)
    if len(payload) > LARGEST_FILE:
        raise InvalidInput(
            f"the backup has {len(payload)} bytes and may have {LARGEST_FILE}: remove what is not needed"
        )
    if key.method is not Encryption.NONE:
        payload = key.keys_for(salt).encrypt(payload, _context(header))
    sealed = msgspec.structs.replace(header, size=len(payload), sha256=hashlib.sha256(payload).hexdigest())
    write_private_file(path, msgspec.json.encode(sealed) + b"\n" + payload)
    return sealed


def read_backup(path: Path, key: BackupKey) -> Backup:
    """Return the whole backup; `InvalidInput` when it is damaged or incomplete, or when the key does not fit."""
    line, _, payload = read_small_file(path, "backup", limit=LARGEST_FILE + 2**20).partition(b"\n")
    header = _parse_header(line, path)
    if len(payload) != header.size or hashlib.sha256(payload).hexdigest() != header.sha256:
        raise InvalidInput(f"{path} is damaged or incomplete: copy it again, or use another backup")
    if header.encryption is not Encryption.NONE:
        payload = _decrypt(payload, header, key, path)
    return Backup(header, _unpack(payload, path))


def _parse_header(line: bytes, path: Path) -> BackupHeader:
    try:
        version = msgspec.json.decode(line, type=_HeaderVersion)
        if version.kind == KIND and version.format > FORMAT:
            raise OperationRefused(
                f"{path} is a backup of format {version.format}, and this release of watchword reads formats up to "
                f"{FORMAT}: restore it with the release that wrote it ({version.release})"
            )
        header = msgspec.json.decode(line, type=BackupHeader)
    except msgspec.MsgspecError as cause:
        raise InvalidInput(f"{path} is not a backup: name a file that `watchword backup` wrote") from cause
    if header.kind != KIND or header.format < 1:
        raise InvalidInput(f"{path} is not a backup: name a file that `watchword backup` wrote")
    return header


class _HeaderVersion(msgspec.Struct, frozen=True):
    kind: str
    format: int
    release: str = ""


def _decrypt(payload: bytes, header: BackupHeader, key: BackupKey, path: Path) -> bytes:
    if key.method is not header.encryption:
        flag = "--key-file" if header.encryption is Encryption.KEY_FILE else "--passphrase-file"
        raise InvalidInput(f"{path} is encrypted: give {flag}")
    try:
        return key.keys_for(header.salt).decrypt(payload, _context(header))
    except (DecryptionFailed, ValueError) as cause:  # or a salt that is none
        raise InvalidInput(
            f"{path} was encrypted with another key or passphrase: give the one it was made with"
        ) from cause


def _context(header: BackupHeader) -> bytes:
    """Return what the encryption binds the archive to: the header without what is computed from the result."""
    return msgspec.json.encode(msgspec.structs.replace(header, size=0, sha256=""))


def _unpack(payload: bytes, path: Path) -> dict[str, bytes]:
    """Return the files; nothing is written, and names that lead elsewhere are refused."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
            for entry in archive:
                content = archive.extractfile(entry)
                if content is None or not _is_plain(entry.name):
                    raise InvalidInput(f"{path} holds {entry.name!r}, which no backup has: use another backup")
                files[entry.name] = content.read()
    except (tarfile.TarError, OSError, EOFError) as cause:
        raise InvalidInput(f"{path} is damaged: use another backup") from cause
    return files


def _is_plain(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name
