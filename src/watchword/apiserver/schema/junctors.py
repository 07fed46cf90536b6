"""Rules made of other rules: allOf, anyOf, oneOf, not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from watchword.api.json import show
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.correlation import ABSENT
from watchword.apiserver.schema.model import Schema

Check = Callable[[Any, Schema, str, Any, list[FieldError]], None]


def check_junctors(value: Any, schema: Schema, path: str, errors: list[FieldError], check: Check) -> None:
    """Append what the junctors of a schema find wrong with a value.

    Their own errors name no field; kube-apiserver prints <nil> there.
    """
    rules = schema.constraints

    def outcomes(schemas: Sequence[Schema]) -> list[list[FieldError]]:
        found: list[list[FieldError]] = [[] for _ in schemas]
        for branch, branch_errors in zip(schemas, found, strict=True):
            check(value, branch, path, ABSENT, branch_errors)
        return found

    if "anyOf" in rules:
        _any_of(rules["anyOf"], outcomes(rules["anyOf"]), value, path, errors)
    if "oneOf" in rules:
        _one_of(rules["oneOf"], outcomes(rules["oneOf"]), value, path, errors)
    if "allOf" in rules:
        _all_of(outcomes(rules["allOf"]), path, errors)
    if "not" in rules and not outcomes([rules["not"]])[0]:
        errors.append(invalid("<nil>", "", f"{show(path)} must not validate the schema (not)"))


def _any_of(
    schemas: Sequence[Schema], found: list[list[FieldError]], value: Any, path: str, errors: list[FieldError]
) -> None:
    if all(found):
        errors.append(invalid("<nil>", "", f"{show(path)} must validate at least one schema (anyOf)"))
        errors.extend(_closest(schemas, found, value))


def _one_of(
    schemas: Sequence[Schema], found: list[list[FieldError]], value: Any, path: str, errors: list[FieldError]
) -> None:
    fitting = found.count([])
    if fitting == 1:
        return
    told = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
    errors.append(invalid("<nil>", "", f"{show(path)} must validate one and only one schema (oneOf). {told}"))
    if not fitting:
        errors.extend(_closest(schemas, found, value))


def _all_of(found: list[list[FieldError]], path: str, errors: list[FieldError]) -> None:
    for branch_errors in found:
        errors.extend(branch_errors)
    if any(found):
        told = ". None validated" if all(found) else ""
        errors.append(invalid("<nil>", "", f"{show(path)} must validate all the schemas (allOf){told}"))


def _closest(schemas: Sequence[Schema], found: list[list[FieldError]], value: Any) -> list[FieldError]:
    # The branch with the most errors about the value is the one that the author most likely meant.
    best = max(range(len(schemas)), key=lambda index: (_overlap(schemas[index], value), -index))
    return found[best]


def _overlap(schema: Schema, value: Any) -> int:
    if type(value) is dict:
        return sum(1 + _overlap(below, value[key]) for key, below in schema.properties.items() if key in value)
    if type(value) is list and schema.items is not None:
        return sum(1 + _overlap(schema.items, item) for item in value)
    return 0
