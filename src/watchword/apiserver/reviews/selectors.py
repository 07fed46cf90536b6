"""Validates selectors of access reviews, which RBAC ignores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watchword.api.meta import Object
from watchword.apiserver import errors
from watchword.apiserver import field_errors as broken
from watchword.apiserver.model import ApiError, FieldError
from watchword.apiserver.selectors.fields import parse_field_selector
from watchword.apiserver.selectors.labels import parse_label_selector

_PATH = "spec.resourceAttributes"
_LABEL_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}  # whether it needs values


def selector_errors(selector: Any, kind: str) -> list[FieldError]:
    """Return an error when a selector is given twice or not at all."""
    if selector is None:
        return []
    if not isinstance(selector, dict):
        raise errors.bad_request(f"{_PATH}.{kind} must be an object")
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    path = f"{_PATH}.{kind}"
    if requirements is not None and not _is_list_of_objects(requirements):
        raise errors.bad_request(f"{path}.requirements must be a list of objects")
    if raw and requirements:
        return [broken.invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements")]
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        return [broken.required(f"{path}.requirements", detail)]
    return []


def selector_remarks(attributes: Object) -> list[str]:
    """Return a remark for each selector that could not be read and was left out."""
    return [
        f"{_PATH}.{kind} {'partially ' if partly else ''}ignored due to parse error"
        for kind, partly in _unreadable(attributes)
    ]


def _unreadable(attributes: Object) -> Iterator[tuple[str, bool]]:
    for kind, is_good in (("fieldSelector", _is_field_requirement), ("labelSelector", _is_label_requirement)):
        selector = attributes.get(kind) or {}
        rows = [is_good(row) for row in selector.get("requirements") or ()]
        if rows and not all(rows):
            yield kind, any(rows)
        elif selector.get("rawSelector") and not _parses(kind, selector["rawSelector"]):
            yield kind, False


def _parses(kind: str, text: Any) -> bool:
    try:
        (parse_field_selector if kind == "fieldSelector" else parse_label_selector)(str(text))
    except ApiError:
        return False
    return True


def _is_label_requirement(row: Any) -> bool:
    needs_values = _LABEL_OPERATORS.get(row.get("operator"))
    return needs_values is not None and bool(row.get("values")) == needs_values


def _is_field_requirement(row: Any) -> bool:
    return row.get("operator") in {"In", "NotIn"} and len(row.get("values") or ()) == 1


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
