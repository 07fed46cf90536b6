"""Removes what looks like a secret from log lines and events.

This is the second line of defence; the first is `Sensitive`, which cannot print itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from watchword.api.sensitive import REDACTED, Sensitive

_SECRET_NAME = re.compile(
    r"(?:.*[_.-])?(?:token|tokens|secret|password|passwd|passphrase|authorization|cookie|bearer)|.*[_.-]key|.*key-data",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,}"  # the same, or a certificate, in base64
    r"|eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?"  # a JSON web token
    r"|(?<=[Bb]earer )[^\s\"',]+"
    r"|(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"  # user and password in a URL
    r"|(?<=\b[a-z0-9]{6}\.)[a-z0-9]{16}\b",  # the secret half of a bootstrap token
    re.DOTALL,
)
_DEPTH = 6


def redact_text(text: str) -> str:
    """Replace everything in a text that looks like a secret."""
    return _SECRET_TEXT.sub(REDACTED, text)


def redact(value: Any, *, depth: int = _DEPTH) -> Any:
    """Return the value as plain data without secrets; unknown types become redacted text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _redact_inside(value, depth=depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return REDACTED if isinstance(value, Sensitive) else redact_text(str(value))


def _redact_inside(value: Any, *, depth: int) -> Any:
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return redact_fields(value, depth=depth - 1)
    return [redact(item, depth=depth - 1) for item in value]


def redact_fields(fields: Mapping[Any, Any], *, depth: int = _DEPTH) -> dict[str, Any]:
    """Return named values without secrets: recognised by name as well as by form."""
    return {
        str(name): REDACTED if is_secret_name(str(name)) and value else redact(value, depth=depth)
        for name, value in fields.items()
    }


def is_secret_name(name: str) -> bool:
    """Whether values of that name are secrets; `key` alone is not: it is the key of an object."""
    return _SECRET_NAME.fullmatch(name) is not None
