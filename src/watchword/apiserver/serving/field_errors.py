"""Errors of single fields, with Kubernetes' messages."""

import json
from collections.abc import Iterable
from typing import Any

import orjson

from watchword.apiserver.serving.model import FieldError


def printed(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # a number beyond 64 bits
        return json.dumps(value, default=str, sort_keys=True)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "FieldValueRequired", _body("Required value", detail))


def invalid(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(path, "FieldValueInvalid", _body(f"Invalid value: {printed(value)}", detail))


def type_invalid(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(path, "FieldValueTypeInvalid", _body(f"Invalid value: {printed(value)}", detail))


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    listed = ", ".join(printed(str(item)) for item in supported)
    detail = f"supported values: {listed}" if listed else ""
    return FieldError(path, "FieldValueNotSupported", _body(f"Unsupported value: {printed(value)}", detail))


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, "FieldValueForbidden", _body("Forbidden", detail))


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, "FieldValueDuplicate", f"Duplicate value: {printed(value)}")


def too_long(path: str, limit: int) -> FieldError:
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def too_many(path: str, actual: int, limit: int) -> FieldError:
    unit = "item" if limit == 1 else "items"
    return FieldError(path, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {unit}")


def _body(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head
