"""Reads a credential's validity from the message of a condition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from watchword.api.time import parse_rfc3339

# RFC 3339 as we write it, or an instant as Go prints one.
_INSTANT = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2}| \+0000 UTC)"
_TOLD = re.compile(rf"(?:(?P<word>from|until|to|at) )?(?P<instant>{_INSTANT})", re.ASCII)


@dataclass(frozen=True, slots=True)
class CredentialValidity:
    """When a credential was issued, expires and is renewed; None: the message does not say."""

    issued: datetime | None
    expires: datetime
    renews: datetime | None = None


def parse_validity_message(message: str) -> CredentialValidity | None:
    """Return the validity in a message, None when it names no expiry."""
    told: dict[str, datetime] = {}
    for found in _TOLD.finditer(message):
        instant = parse_rfc3339(found["instant"].replace(" +0000 UTC", "Z").replace(" ", "T"))
        if instant is not None:
            told.setdefault({"to": "until"}.get(found["word"], found["word"] or "until"), instant)
    expires = told.get("until") or (told.get("at") if len(told) == 1 else None)
    if expires is None:
        return None
    renews = told.get("at") if told.get("at") != expires else None
    return CredentialValidity(told.get("from"), expires, renews)
