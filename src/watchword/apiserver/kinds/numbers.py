"""Numbers that have bounds: ports, counts and percentages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from watchword.api.meta import Object
from watchword.apiserver import field_errors as broken
from watchword.apiserver.model import FieldError

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def port_errors(port: int, path: str) -> Iterator[FieldError]:
    """Validate a port number."""
    if not 1 <= port <= 65535:
        yield broken.invalid(path, port, "must be between 1 and 65535, inclusive")


def negative_errors(spec: Object, names: Iterable[str], path: str) -> Iterator[FieldError]:
    """Validate non-negative numbers."""
    for name in names:
        if (spec.get(name) or 0) < 0:
            yield broken.invalid(f"{path}.{name}", spec[name], "must be greater than or equal to 0")


def int_or_percent_errors(value: Any, path: str) -> Iterator[FieldError]:
    """Validate a number that may also be a percentage."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value, re.ASCII):
        yield broken.invalid(path, value, _PERCENT)
    elif isinstance(value, int) and value < 0:
        yield broken.invalid(path, value, "must be greater than or equal to 0")
