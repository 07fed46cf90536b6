"""Reads the credentials in kubeconfigs of unknown origin, such as those of a lost machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from watchword.admin.errors import InvalidInput
from watchword.api.sensitive import Sensitive
from watchword.kube.credentials import Credential, bearer
from watchword.kube.errors import ConfigError
from watchword.kube.files import read_small_file
from watchword.kube.kubeconfig import Kubeconfig, UserEntry
from watchword.kube.kubeconfig_parser import parse_kubeconfig
from watchword.kube.tls import ClientCertificate
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError

LARGEST_FILE = 1024 * 1024
MOST_FILES = 10_000


class HeldEntry(Struct, frozen=True):
    """One user of a kubeconfig, with its credential or the reason why there is none to read."""

    path: Path
    user: str
    credential: Credential | None = None
    unreadable: str = ""

    @property
    def token(self) -> Sensitive[str] | None:
        """The bearer token, None when the credential is a certificate."""
        if self.credential is None or self.credential.authorization is None:
            return None
        return Sensitive(self.credential.authorization.reveal().removeprefix("Bearer "))

    @property
    def certificate(self) -> Certificate | None:
        """The client certificate, None when there is none that can be read."""
        if self.credential is None or self.credential.certificate is None:
            return None
        try:
            return parse_certificate(self.credential.certificate.chain)
        except PkiError:
            return None

    def __str__(self) -> str:
        return f"user {self.user} in {self.path}"


def read_held_entries(path: Path) -> list[HeldEntry]:
    """Return every user of a kubeconfig, or of all kubeconfigs in a folder; `InvalidInput` when there is none."""
    folder = path if path.is_dir() else path.parent
    entries: list[HeldEntry] = []
    for file in _files(path):
        try:
            entries += _read_file(file, folder.resolve())
        except ConfigError as objection:
            if file == path:
                raise InvalidInput(f"{path} is no kubeconfig: {objection}") from objection
    if not entries:
        raise InvalidInput(f"there is no kubeconfig with a user in {path}: name a kubeconfig or a folder with some")
    return entries


def _files(path: Path) -> Iterator[Path]:
    """Return the regular files; links are not followed, for a folder of unknown origin may point anywhere."""
    if not path.is_dir():
        yield path
        return
    found = (Path(root) / name for root, _, names in os.walk(path) for name in sorted(names))
    for count, file in enumerate(found):
        if count == MOST_FILES:
            raise InvalidInput(f"{path} has more than {MOST_FILES} files: name the folder with the kubeconfigs")
        if not file.is_symlink() and file.is_file():
            yield file


def _read_file(file: Path, folder: Path) -> list[HeldEntry]:
    data = read_small_file(file, "kubeconfig", limit=LARGEST_FILE)
    config = parse_kubeconfig(data, folder=file.absolute().parent) if b"users" in data else Kubeconfig()
    return [_read_user(file, name, user, folder) for name, user in config.users.items()]


def _read_user(file: Path, name: str, user: UserEntry, folder: Path) -> HeldEntry:
    try:
        credential = _credential(user, folder)
    except ConfigError as objection:
        return HeldEntry(file, name, unreadable=str(objection))
    return HeldEntry(file, name, credential)


def _credential(user: UserEntry, folder: Path) -> Credential:
    """Return the credential; plugins are not run and files elsewhere not read, since another person chose them."""
    token = user.token.reveal().encode() if user.token else _content(user.token_file, folder)
    if token:
        return Credential(bearer(token))
    chain = user.certificate_data or _content(user.certificate_file, folder)
    key = user.key_data.reveal() if user.key_data else _content(user.key_file, folder)
    if chain and key:
        return Credential(certificate=ClientCertificate(chain, Sensitive(key)))
    if user.plugin is not None:
        raise ConfigError(
            f"its credential comes from the plugin {user.plugin.command}, which is not run: name what it stands for, "
            "as in `watchword revoke cluster NAME`"
        )
    if user.username:
        raise ConfigError("it holds a password: change it where the API server's authenticator keeps it")
    raise ConfigError("it holds neither a token nor a certificate with its key")


def _content(path: Path | None, folder: Path) -> bytes:
    if path is None:
        return b""
    if not path.resolve().is_relative_to(folder):
        raise ConfigError(f"its file {path} is outside of {folder}, and is not read: name the folder that holds both")
    return read_small_file(path, "file", limit=LARGEST_FILE)
