"""Validates an applied configuration against its schema before it is merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watchword.api.json import go_print
from watchword.api.meta import Object
from watchword.apiserver.fieldmanager.fieldset import print_path
from watchword.apiserver.fieldmanager.shape import ItemWithoutKey, is_granular_list, item_element
from watchword.apiserver.model import ApiError
from watchword.apiserver.schema.model import Schema

_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "int-or-string": (int, float, str),
}
_NUMERIC = "numeric (int or float)"
_WANTED = {"integer": _NUMERIC, "number": _NUMERIC, "int-or-string": "untyped"}


def check_applied(applied: Object, schema: Schema) -> None:
    """Raise when the configuration has unknown fields, wrong types or items without identity.

    kube-apiserver answers 500 without a reason, and so do we: clients match on it.
    """
    errors = list(_check(applied, schema, ""))
    if not errors:
        return
    metadata = applied.get("metadata") or {}
    group, _, version = str(applied.get("apiVersion")).rpartition("/")
    subject = (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={applied.get('kind')}"
    )
    told = errors[0] if len(errors) == 1 else "\n".join(["errors:", *(f"  {error}" for error in errors)])
    raise ApiError(500, "", f"failed to create typed patch object ({subject}): {told}")


def _check(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    if value is None or schema is None or schema.type == "any":
        return
    if schema.type == "object":
        if type(value) is not dict:
            yield f"{path}: expected map, got {_shown(value)}"
            return
        for key, item in value.items():
            below = schema.properties.get(key, schema.additional)
            if below is None and not schema.preserve_unknown:
                yield f"{path}.{key}: field not declared in schema"
            yield from _check(item, below, f"{path}.{key}")
    elif schema.type == "array":
        if type(value) is not list:
            yield f"{path}: expected list, got {_shown(value)}"
            return
        yield from _check_items(value, schema, path)
    elif type(value) not in _SCALARS[schema.type]:
        wanted = _WANTED.get(schema.type, schema.type)
        yield f"{path}: expected {wanted}, got {_go_type(value) if wanted == _NUMERIC else _shown(value)}"


def _check_items(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if is_granular_list(value, schema):
            try:
                element = item_element(item, schema)
            except ItemWithoutKey as error:
                yield f"{path}: element {index}: {error}"
                continue
            place = f"{path}{print_path((element,))}"
            if element in seen:
                yield f"{path}: duplicate entries for key {print_path((element,))}"
                continue
            seen.add(element)
        yield from _check(item, schema.items, place)


def _go_type(value: Any) -> str:
    names: dict[type, str] = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "<nil>")


def _shown(value: Any) -> str:
    scalar = type(value) in (int, float)
    return f"&value.valueUnstructured{{Value:{value!r}}}" if scalar else f"&{{{go_print(value)}}}"
