"""The content of an image pull secret: one token for every registry, written and read."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import orjson
from msgspec import Struct

from watchword.api.pull_secrets import USERNAME
from watchword.api.sensitive import Sensitive
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import audiences_of, service_account_uid, split_token

LATEST_SECONDS = 253_402_300_799  # the year 9999: what lies behind it is no date


class TokenFacts(Struct, frozen=True):
    """What a token says of itself. No signature was checked: it only decides whether to ask for another one."""

    key_id: str
    subject: str
    account_uid: str
    secret_uid: str
    audiences: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime


class Credentials(Struct, frozen=True):
    """A readable pull secret: the registries it names, and the facts of the one token in it."""

    registries: tuple[str, ...]
    token: TokenFacts


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
    facts = None if token is None else read_token_facts(token)
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
    auths = {_auth_of(row) for row in rows.values()}
    return _token_of(auths.pop() if len(auths) == 1 else "")


def read_token_facts(token: str) -> TokenFacts | None:
    """Return what a token says of itself, None when it is not a bound service account token."""
    try:
        header, claims = split_token(token)
    except InvalidJwt:
        return None
    issued, expires = _instant(claims.get("iat")), _instant(claims.get("exp"))
    if issued is None or expires is None:
        return None
    private = _mapping(claims.get("kubernetes.io"))
    return TokenFacts(
        key_id=str(header.get("kid") or ""),
        subject=str(claims.get("sub") or ""),
        account_uid=service_account_uid(claims),
        secret_uid=str(_mapping(private.get("secret")).get("uid") or ""),
        audiences=audiences_of(claims),
        issued_at=issued,
        expires_at=expires,
    )


def _auth_of(row: Any) -> str:
    """Return the `auth` of a registry that has nothing else: other fields could name another credential."""
    return str(row["auth"]) if isinstance(row, dict) and set(row) == {"auth"} else ""


def _token_of(auth: str) -> str | None:
    try:
        text = base64.b64decode(auth + "=" * (-len(auth) % 4), validate=True).decode()
    except ValueError:  # no base64, characters beyond ASCII, or no UTF-8 inside
        return None
    username, colon, token = text.partition(":")
    return token if (username, colon) == (USERNAME, ":") else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _instant(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_SECONDS:
        return None
    return datetime.fromtimestamp(value, UTC)
