"""Validates an object against its schema, with Kubernetes' messages."""

from __future__ import annotations

from typing import Any, Final

from watchword.api.json import same_json, show, type_name
from watchword.apiserver.field_errors import invalid, required, type_invalid
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.constraints import check_enum, check_number, check_size, check_string
from watchword.apiserver.schema.correlation import ABSENT, old_field, old_items
from watchword.apiserver.schema.embedded import check_embedded
from watchword.apiserver.schema.junctors import check_junctors
from watchword.apiserver.schema.list_types import check_list_types
from watchword.apiserver.schema.model import Schema

_ACCEPTED: Final[dict[str, frozenset[type]]] = {
    "object": frozenset((dict,)),
    "array": frozenset((list,)),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
    "integer": frozenset((int,)),
    "number": frozenset((int, float)),
    "int-or-string": frozenset((int, str)),
    "any": frozenset((dict, list, str, bool, int, float)),
}
MAX_ERRORS: Final = 500  # more do not help, and a large object could have as many errors as fields
_BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)


def validate(value: Any, schema: Schema, *, old: Any = ABSENT, path: str = "") -> list[FieldError]:
    """Return every broken rule; with `old`, what was already wrong and did not change is tolerated."""
    errors: list[FieldError] = []
    check(value, schema, path, old, errors)
    check_embedded(value, schema, path, errors)
    repeated = check_list_types(value, schema, path)[:MAX_ERRORS]
    if repeated and (old is ABSENT or not check_list_types(old, schema, path)):
        errors.extend(repeated)
    if "rules" in schema.contains:
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(invalid("<nil>", None, _RULES_NOT_CHECKED))
        else:
            from watchword.apiserver.schema.validation_rules import check_rules

            check_rules(value, schema, path, old, errors)
    return errors


def check(value: Any, schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    """Append what types, constraints and junctors find wrong at this value and below."""
    if len(errors) >= MAX_ERRORS:
        return
    if old is not ABSENT and same_json(value, old):
        return  # what did not change is tolerated, so it is not looked at
    kind = type(value)
    if kind not in _ACCEPTED[schema.type]:
        _check_type(value, schema, path, errors)
    rules = schema.constraints
    if rules and value is not None:
        check_junctors(value, schema, path, errors, check)
        if kind is str:
            check_string(value, rules, path, errors)
        elif kind is int or kind is float:
            check_number(value, rules, path, errors)
    if kind is list:
        _check_list(value, schema, path, old, errors)
    if rules and "enum" in rules:
        check_enum(value, rules["enum"], path, errors)
    if kind is dict:
        _check_object(value, schema, path, old, errors)


def _check_type(value: Any, schema: Schema, path: str, errors: list[FieldError]) -> None:
    if value is None and (schema.nullable or schema.type == "any"):
        return
    if type(value) is float and value.is_integer() and schema.type in {"integer", "int-or-string"}:
        return
    wanted = "integer,string" if schema.type == "int-or-string" else schema.type
    found = type_name(value)
    errors.append(type_invalid(path, found, f"{path} in body must be of type {wanted}: {show(found)}"))


def _check_list(value: list[Any], schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    items = schema.items
    if items is not None:
        accepted = () if items.constraints else _ACCEPTED[items.type] - {dict, list}
        before = old_items(old, schema) if old is not ABSENT else None
        for index, item in enumerate(value):
            if type(item) not in accepted:
                check(item, items, f"{path}[{index}]", before(item) if before else ABSENT, errors)
    if schema.constraints:
        check_size(len(value), schema.constraints, "Items", path, errors)


def _check_object(value: dict[str, Any], schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    if schema.constraints:
        check_size(len(value), schema.constraints, "Properties", path, errors)
    properties, additional = schema.properties, schema.additional
    for key, item in value.items():
        below = properties.get(key, additional)
        if below is None:
            continue
        kind = type(item)
        # The common case, a plain scalar of the right type, needs no call and no path.
        if not below.constraints and kind is not dict and kind is not list and kind in _ACCEPTED[below.type]:
            continue
        check(item, below, f"{path}.{key}" if path else key, old_field(old, schema, key), errors)
    missing = [key for key in schema.required if key not in value]
    errors.extend(required(f"{path}.{key}" if path else key) for key in missing)


_RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
