"""Credentials of a client: fixed or from files; those from plugins are in `exec_plugin`."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from watchword.api.sensitive import Sensitive
from watchword.kube.endpoint import FileOrBytes, read
from watchword.kube.errors import ConfigError
from watchword.kube.files import RECHECK_SECONDS
from watchword.kube.tls import ClientCertificate


class Credential(Struct, frozen=True):
    """One identity: an Authorization header, a client certificate, both or neither; and extra headers."""

    authorization: Sensitive[str] | None = None
    certificate: ClientCertificate | None = None
    headers: tuple[tuple[str, str], ...] = ()


class CredentialSource(Protocol):
    """Provides the current credential."""

    async def current(self) -> Credential:
        """Return the credential to use now; `ConfigError` when there is none."""
        ...

    async def renewed(self, rejected: Credential) -> Credential | None:
        """Return another credential after a 401, None when there is no other."""
        ...


class FixedCredential(Struct, frozen=True):
    """A credential that does not change."""

    credential: Credential = field(default_factory=Credential)

    async def current(self) -> Credential:
        return self.credential

    async def renewed(self, rejected: Credential) -> Credential | None:  # noqa: ARG002 - the protocol's shape
        return None


class StoredCredential(Struct):
    """A credential in memory and files; files are read again when they change."""

    token: FileOrBytes = b""
    chain: FileOrBytes = b""
    key: FileOrBytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    _held: Credential | None = None
    _checked_at: float = 0.0

    async def current(self) -> Credential:
        """Return the credential in the files, checking them at most once a second."""
        now = asyncio.get_running_loop().time()
        if self._held is None or now - self._checked_at >= RECHECK_SECONDS:
            self._checked_at = now
            self._held = self._read()
        return self._held

    async def renewed(self, rejected: Credential) -> Credential | None:
        self._held = self._read()
        return None if self._held == rejected else self._held

    def _read(self) -> Credential:
        certificate = None
        if self.chain:
            certificate = ClientCertificate(read(self.chain), Sensitive(read(self.key)))
        return Credential(bearer(read(self.token)) if self.token else None, certificate, self.headers)


def bearer(token: bytes) -> Sensitive[str]:
    """Return the Authorization header of a token; `ConfigError` when it cannot be one."""
    text = token.decode("ascii", errors="replace").strip()
    if not text or not text.isprintable() or " " in text or "\ufffd" in text:
        raise ConfigError("the bearer token is empty or holds characters that no token has")
    return Sensitive(f"Bearer {text}")


def basic(username: str, password: Sensitive[str]) -> Sensitive[str]:
    pair = f"{username}:{password.reveal()}".encode()
    return Sensitive(f"Basic {base64.b64encode(pair).decode()}")


def impersonation(
    user: str, uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user)] if user else []
    headers += [("Impersonate-Uid", uid)] if uid else []
    headers += [("Impersonate-Group", group) for group in groups]
    headers += [(f"Impersonate-Extra-{key}", value) for key, values in extra.items() for value in values]
    if any(not value.isprintable() or not name.isascii() or not name.isprintable() for name, value in headers):
        raise ConfigError("the impersonated user holds characters that no HTTP header may have")
    return tuple(headers)
