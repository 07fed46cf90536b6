"""Keeps what was changed in the emulated accounts, so that another process can continue with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from watchword.api.http import Request

READ_ONLY = ("Get", "List", "Describe", "Simulate", "Assume")


class Change(Struct, frozen=True):
    """One request that changed an account, without its signature."""

    service: str
    action: str
    region: str
    account: str
    partition: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    content_type: str
    body: str

    @property
    def request(self) -> Request:
        """The request again; the scope of its signature says which service it is for."""
        scope = f"AWS4-HMAC-SHA256 Credential=replayed/20260101/{self.region}/{self.service}/aws4_request"
        headers = (("Content-Type", self.content_type), ("Authorization", f"{scope}, SignedHeaders=host, Signature=0"))
        return Request(self.method, self.path, self.query, headers, self.body.encode())


def is_change(action: str) -> bool:
    """Whether requests of an action change an account."""
    return not action.startswith(READ_ONLY)


class Journal(Struct, frozen=True):
    """A file with one line for each change."""

    path: Path

    def append(self, change: Change) -> None:
        """Add a change."""
        if not self.path.exists():
            self.path.touch(0o600)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(change) + b"\n")

    def read(self) -> Iterator[Change]:
        """Return the changes, the oldest first; a line that a crash cut off is left out."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().splitlines():
            try:
                yield msgspec.json.decode(line, type=Change)
            except msgspec.MsgspecError:
                continue
