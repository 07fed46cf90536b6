"""The files of the front end, as they are in the package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files

from msgspec import Struct

from watchword.api.http import Request, Response

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
INDEX, LOGIN, SIGNED_IN, SIGNED_OUT = "index.html", "login.html", "signed-in.html", "signed-out.html"


class Asset(Struct, frozen=True):
    """One file."""

    content: bytes
    content_type: str
    tag: str

    def answer(self, request: Request, status: int = 200) -> Response:
        """Return the file, or only that the browser has it already."""
        headers = (("Cache-Control", "no-cache"), ("ETag", self.tag), ("Content-Type", self.content_type))
        if status == 200 and request.header("If-None-Match") == self.tag:
            return Response(304, headers)
        return Response(status, headers, self.content)


def load_assets() -> Mapping[str, Asset]:
    found = {}
    for path in files(__package__).joinpath("assets").iterdir():
        suffix = path.name.rpartition(".")[2]
        if suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.name] = Asset(content, TYPES[suffix], tag)
    return found
