"""Where a discovery document comes from: a file, standard input, or an https address; never anything else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from watchword.discovery.document_download import MAXIMUM_BYTES, download, limit_document_size
from watchword.discovery.errors import DiscoveryReason, SourceRefused
from watchword.kube.errors import ConfigError
from watchword.kube.files import read_small_file
from watchword.kube.tls import Trust

STANDARD_INPUT = "-"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:", re.ASCII)


class DocumentReader(Struct, frozen=True):
    """Reads the bytes of a discovery document; raises `SourceRefused`."""

    standard_input: BinaryIO
    trust: Trust = field(default_factory=Trust)  # for https addresses: the system's roots

    async def read(self, source: str) -> bytes:
        """Return what is there, at most 1 MiB."""
        if source == STANDARD_INPUT:
            return limit_document_size(self.standard_input.read(MAXIMUM_BYTES + 1))
        if not _SCHEME.match(source):
            try:
                return read_small_file(Path(source), "discovery file", limit=MAXIMUM_BYTES)
            except ConfigError as cause:
                raise SourceRefused(DiscoveryReason.SOURCE_UNREADABLE, str(cause)) from cause
        if not source.startswith("https://"):
            raise SourceRefused(
                DiscoveryReason.SOURCE_REFUSED,
                "a discovery address must begin with https://: give that, a file, or - for stdin",
            )
        return await download(source, self.trust)
