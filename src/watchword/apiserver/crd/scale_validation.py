"""Validates objects of a custom kind for its scale subresource: counts at the declared paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watchword.api.meta import Object
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.model import FieldError, Operation, Validator

_LARGEST = 2**31 - 1


def scale_validator(paths: tuple[str, str, str] | None) -> tuple[Validator, ...]:
    """Return the validator of the two counts; none without a scale endpoint."""
    if paths is None:
        return ()
    counts = paths[:2]

    def validate(operation: Operation) -> list[FieldError]:
        return [error for path in counts if path for error in _count_errors(operation.new or {}, path)]

    return (validate,)


def _count_errors(obj: Object, path: str) -> Iterator[FieldError]:
    place, value = f".{path}", _found(obj, path.split("."))
    if isinstance(value, _Misplaced):
        yield invalid(place, 0, f"{place} accessor error: {value.complaint}")
    elif value is not None and value < 0:
        yield invalid(place, value, "should be a non-negative integer")
    elif value is not None and value > _LARGEST:
        yield invalid(place, value, f"should be less than or equal to {_LARGEST}")


class _Misplaced:
    def __init__(self, value: Any, wanted: str) -> None:
        names: dict[type, str] = {str: "string", bool: "bool", float: "float64", int: "int64", list: "[]interface {}"}
        found = names.get(type(value), "map[string]interface {}")
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        self.complaint = f"{shown} is of the type {found}, expected {wanted}"


def _found(obj: Object, steps: list[str]) -> int | _Misplaced | None:
    value: Any = obj
    for step in steps:
        if not isinstance(value, dict):
            return _Misplaced(value, "map[string]interface{}")
        if value.get(step) is None:
            return None
        value = value[step]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else _Misplaced(value, "int64")
