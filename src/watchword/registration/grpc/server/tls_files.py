"""The server's certificate and the authorities of its clients, read from files that may be replaced."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from watchword.http.server import serving_context
from watchword.kube.files import read_small_file
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.registration.grpc.errors import TlsFilesUnusable

ALPN = "h2"


class _Material(Struct, frozen=True):
    version: tuple[tuple[int, int], ...]
    context: ssl.SSLContext
    roots: tuple[Certificate, ...]


@dataclass
class TlsFiles:
    """Reads the files again when they have changed; keeps what it has while they cannot be used."""

    certificate: Path
    key: Path
    client_roots: Path
    _held: _Material | None = field(default=None, init=False, repr=False)

    def load(self) -> None:
        """Read the files; `TlsFilesUnusable` when they cannot be used."""
        self._held = self._read(self._version())

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        return self._current().context

    def roots(self) -> tuple[Certificate, ...]:
        """Return the authorities whose client certificates are accepted now."""
        return self._current().roots

    def _current(self) -> _Material:
        try:
            version = self._version()
            if self._held is None or self._held.version != version:
                self._held = self._read(version)
        except TlsFilesUnusable:  # such as a certificate whose key is not there yet
            if self._held is None:
                raise
        return self._held

    def _version(self) -> tuple[tuple[int, int], ...]:
        try:
            found = [path.stat() for path in (self.certificate, self.key, self.client_roots)]
        except OSError as cause:
            raise TlsFilesUnusable(f"{cause.filename} cannot be read: {cause.strerror}") from cause
        return tuple((entry.st_mtime_ns, entry.st_ino) for entry in found)

    def _read(self, version: tuple[tuple[int, int], ...]) -> _Material:
        try:
            bundle = read_small_file(self.client_roots, "client CA file")
            roots = split_bundle(bundle)
            context = serving_context(str(self.certificate), str(self.key), bundle, ALPN)
        except (OSError, ValueError, PkiError) as cause:
            raise TlsFilesUnusable(
                f"{self.certificate}, {self.key} and {self.client_roots} cannot be used together: {cause}"
            ) from cause
        return _Material(version, context, roots)
