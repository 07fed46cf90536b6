"""ContinueToken tokens: where the next page of a list starts, and as of which revision."""

from __future__ import annotations

import base64
import binascii

import orjson
from msgspec import Struct

from watchword.apiserver.errors import bad_request
from watchword.apiserver.model import ApiError

LATEST = -1
"""In place of a revision: go on at the latest state, inconsistently."""


class ContinueToken(Struct, frozen=True):
    """A place in a list; `start` comes first in the next page."""

    revision: int
    start: str

    def encode(self) -> str:
        """Return the token for clients, to whom it is opaque."""
        data = orjson.dumps({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start})
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_continue_token(token: str) -> ContinueToken:
    """Read a token; 400 when it is none of ours."""
    try:
        data = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error):
        raise _invalid("") from None
    if not isinstance(data, dict) or data.get("v") != "meta.k8s.io/v1":
        version = data.get("v", "") if isinstance(data, dict) else ""
        raise _invalid(f": server does not recognize this encoded version {version}")
    revision, start = data.get("rv"), data.get("start")
    if not isinstance(revision, int) or not isinstance(start, str) or revision == 0 or not start:
        raise _invalid(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    return ContinueToken(revision, start)


def _invalid(detail: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid{detail}")
