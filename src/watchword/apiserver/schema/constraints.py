"""Rules about one value by itself: enum, length, pattern, format, bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from watchword.api.json import same_json, show
from watchword.apiserver.field_errors import invalid, not_supported, too_long, too_many, type_invalid
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.formats import is_formatted


def check_string(value: str, rules: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check length, pattern and format; the first of length and pattern to fail is the only one reported."""
    longest, shortest, pattern = rules.get("maxLength"), rules.get("minLength"), rules.get("pattern")
    if longest is not None and len(value) > longest:
        errors.append(too_long(path, longest))
    elif shortest is not None and len(value) < shortest:
        errors.append(invalid(path, value, f"{path} in body should be at least {shortest} chars long"))
    elif pattern and not _matches(pattern, value):
        errors.append(invalid(path, value, f"{path} in body should match '{pattern}'"))
    name = rules.get("format")
    if name and not is_formatted(value, name):
        errors.append(type_invalid(path, value, f"{path} in body must be of type {name}: {show(value)}"))


def check_number(value: float, rules: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check bounds and divisibility."""
    factor, low, high = rules.get("multipleOf"), rules.get("minimum"), rules.get("maximum")
    if factor and value % factor:
        errors.append(invalid(path, value, f"{path} in body should be a multiple of {go_number(factor)}"))
    if low is not None:
        exclusive = rules.get("exclusiveMinimum", False)
        if value < low or (exclusive and value == low):
            words = "greater than" if exclusive else "greater than or equal to"
            errors.append(invalid(path, value, f"{path} in body should be {words} {go_number(low)}"))
    if high is not None:
        exclusive = rules.get("exclusiveMaximum", False)
        if value > high or (exclusive and value == high):
            words = "less than" if exclusive else "less than or equal to"
            errors.append(invalid(path, value, f"{path} in body should be {words} {go_number(high)}"))


def check_size(size: int, rules: Mapping[str, Any], what: str, path: str, errors: list[FieldError]) -> None:
    """Check how many `Items` or `Properties` (what) a container has."""
    least, most = rules.get(f"min{what}"), rules.get(f"max{what}")
    if least is not None and size < least:
        errors.append(invalid(path, size, f"{path} in body should have at least {least} {what.lower()}"))
    if most is not None and size > most:
        errors.append(too_many(path, size, most))


def check_enum(value: Any, allowed: list[Any], path: str, errors: list[FieldError]) -> None:
    """Check that a value is one of those allowed."""
    if not any(same_json(value, item) for item in allowed):
        names = (item if isinstance(item, str) else show(item) for item in allowed)
        errors.append(not_supported(path, value, names))


def go_number(value: float) -> str:
    """Print a number of a schema as kube-apiserver prints it."""
    return str(int(value)) if value == int(value) and abs(value) < 1e21 else show(value)


def _matches(pattern: str, value: str) -> bool:
    from watchword.cel.re2_patterns import compile_pattern

    try:
        return bool(compile_pattern(pattern).search(value))
    except re.error:
        return False
