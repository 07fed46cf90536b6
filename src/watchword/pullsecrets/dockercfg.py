"""The content of an image pull secret: one token for every registry, written and read."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import orjson
from msgspec import Struct

from watchword.api.pull_secrets import USERNAME
from watchword.api.sensitive import Sensitive
from watchword.credentials.lifecycle import BoundToken, read_bound_token


class Credentials(Struct, frozen=True):
    """A readable pull secret: the registries it names, and the claims of the one token in it."""

    registries: tuple[str, ...]
    token: BoundToken


class Empty(Struct, frozen=True):
    """A pull secret that holds no credential yet."""


class Corrupt(Struct, frozen=True):
    """A pull secret that this program would not have written."""


Content: TypeAlias = Credentials | Empty | Corrupt


def render_dockercfg(registries: Iterable[str], token: Sensitive[str]) -> bytes:
    """Return `.dockercfg` with the token for every registry, in order."""
    auth = base64.b64encode(f"{USERNAME}:{token.reveal()}".encode()).decode()
    return orjson.dumps({registry: {"auth": auth} for registry in sorted(set(registries))})


def read_dockercfg(data: bytes) -> Content:
    """Read `.dockercfg`; anything but one token under the expected user name is corrupt."""
    try:
        rows = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Corrupt()
    if rows == {}:
        return Empty()
    if not isinstance(rows, dict):
        return Corrupt()
    token = _one_token(rows)
    facts = None if token is None else read_bound_token(token)
    if facts is None:
        return Corrupt()
    return Credentials(tuple(sorted(rows)), facts)


def find_dockercfg_token(data: bytes) -> Sensitive[str] | None:
    """Return the one token of `.dockercfg`, None when it is empty or corrupt."""
    if not isinstance(read_dockercfg(data), Credentials):
        return None
    token = _one_token(orjson.loads(data))
    return None if token is None else Sensitive(token)


def _one_token(rows: Mapping[str, Any]) -> str | None:
    # Only of registries that have nothing else: other fields could name another credential.
    auths = {str(row["auth"]) if isinstance(row, dict) and set(row) == {"auth"} else "" for row in rows.values()}
    return _token_of(auths.pop() if len(auths) == 1 else "")


def _token_of(auth: str) -> str | None:
    try:
        text = base64.b64decode(auth + "=" * (-len(auth) % 4), validate=True).decode()
    except ValueError:  # no base64, characters beyond ASCII, or no UTF-8 inside
        return None
    username, colon, token = text.partition(":")
    return token if (username, colon) == (USERNAME, ":") else None
