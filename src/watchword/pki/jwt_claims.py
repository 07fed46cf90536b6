"""Checks the claims of a verified token: time, issuer, audience."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from watchword.pki.errors import InvalidJwt

LEEWAY = timedelta(0)


def check_claims(
    claims: Mapping[str, Any],
    *,
    now: datetime,
    issuers: Collection[str] = (),
    audiences: Collection[str] = (),
    leeway: timedelta = LEEWAY,
) -> tuple[str, ...]:
    """Return the audiences that both sides share; raise `InvalidJwt` when time, issuer or audience is wrong.

    A token without `exp` never expires and is refused; without an expected issuer or audience any is accepted.
    """
    seconds, slack = now.timestamp(), leeway.total_seconds()
    expires, starts = _number(claims, "exp"), _number(claims, "nbf")
    if expires is None or seconds >= expires + slack:
        raise InvalidJwt("the token has expired")
    if starts is not None and seconds < starts - slack:
        raise InvalidJwt("the token is not valid yet")
    if issuers and claims.get("iss") not in issuers:
        raise InvalidJwt("the token was issued by another issuer")
    offered = audiences_of(claims)
    shared = tuple(audience for audience in offered if audience in audiences)
    if audiences and not shared:
        raise InvalidJwt("the token is meant for another audience")
    return shared if audiences else offered


def audiences_of(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `aud` as a tuple, whether the token holds one string or a list."""
    value = claims.get("aud")
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return ()


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidJwt(f"the claim {name} is not a number")
    return float(value)
