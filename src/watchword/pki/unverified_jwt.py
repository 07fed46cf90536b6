"""Reads a token's header and claims without verifying them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from watchword.pki.errors import InvalidJwt

MAXIMUM_TOKEN_BYTES = 32 * 1024


def read_unverified_claims(token: str) -> dict[str, Any]:
    """Return the token's claims; none of them is verified."""
    return split_token(token)[1]


def read_unverified_header(token: str) -> dict[str, Any]:
    """Return the token's header; it is not verified."""
    return split_token(token)[0]


def service_account_uid(claims: Mapping[str, Any]) -> str:
    """Return the UID of the ServiceAccount that a token is for, empty when the claims name none."""
    bound = claims.get("kubernetes.io")
    account = bound.get("serviceaccount") if isinstance(bound, dict) else None
    return str(account.get("uid") or "") if isinstance(account, dict) else ""


def claimed_instant(claims: Mapping[str, Any], name: str) -> datetime | None:
    """Return the instant in a claim such as `exp`, None when it is none."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def split_token(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims, unverified; raise `InvalidJwt` when the text is not a JWT."""
    if len(token) > MAXIMUM_TOKEN_BYTES or not token.isascii():
        raise InvalidJwt("the text is not a JWT: too long or not ASCII")
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise InvalidJwt("the text is not a JWT: it does not have three parts")
    return _json(parts[0]), _json(parts[1])


def _json(part: str) -> dict[str, Any]:
    try:
        padded = part + "=" * (-len(part) % 4)
        decoded = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as cause:
        raise InvalidJwt("the text is not a JWT: a part of it is not base64url JSON") from cause
    if not isinstance(decoded, dict):
        raise InvalidJwt("the text is not a JWT: a part of it is not a JSON object")
    return decoded
