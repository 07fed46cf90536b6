"""Embedded resources: objects inside objects that have their own apiVersion and kind."""

from __future__ import annotations

from typing import Any

from watchword.apiserver.field_errors import invalid, required
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.dns_names import dns1035_label_errors
from watchword.apiserver.schema.model import Schema


def check_embedded(value: Any, schema: Schema | None, path: str, errors: list[FieldError]) -> None:
    """Append errors for embedded resources at this value and below that lack apiVersion, kind or a valid name."""
    if schema is None or "embedded" not in schema.contains:
        return
    if type(value) is dict:
        if schema.embedded_resource:
            _check_one(value, f"{path}." if path else "", errors)
        for key, item in value.items():
            if key in schema.properties:
                check_embedded(item, schema.properties[key], f"{path}.{key}" if path else key, errors)
            else:
                check_embedded(item, schema.additional, f"{path}[{key}]", errors)
    elif type(value) is list:
        for index, item in enumerate(value):
            check_embedded(item, schema.items, f"{path}[{index}]", errors)


def _check_one(value: dict[str, Any], prefix: str, errors: list[FieldError]) -> None:
    for key in ("apiVersion", "kind"):
        said, path = value.get(key), f"{prefix}{key}"
        if key not in value:
            errors.append(required(path))
        elif not isinstance(said, str):
            errors.append(invalid(path, said, "must be a string"))
        elif not said:
            errors.append(invalid(path, said, "must not be empty"))
        elif key == "apiVersion" and said.count("/") > 1:
            errors.append(invalid(path, said, f"unexpected GroupVersion string: {said}"))
        elif key == "kind" and (complaints := dns1035_label_errors(said.lower())):
            errors.append(invalid(path, said, f"may have mixed case, but should otherwise match: {complaints}"))
    if not isinstance(value.get("metadata", {}), dict):
        errors.append(invalid(f"{prefix}metadata", value["metadata"], "must be an object"))
