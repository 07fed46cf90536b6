"""Validates columns, subresources and selectable fields of one version of a definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from watchword.api.meta import Object
from watchword.apiserver.crd.definition import text
from watchword.apiserver.field_errors import duplicate, invalid, required, too_many
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.nodes import Node, is_set, properties_of, type_of

MAX_SELECTABLE_FIELDS: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
# With a status endpoint the root may contain only what splits cleanly between spec and status.
_AT_STATUS_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def check_status_root(openapi: Node, path: str) -> Iterator[FieldError]:
    """Yield what the root of a schema may not contain together with a status endpoint."""
    if any(key not in _AT_STATUS_ROOT and is_set(openapi, key) for key in openapi):
        listed = " ".join(_AT_STATUS_ROOT.values())
        detail = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, openapi, detail)


def check_scale(subresources: Object, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the paths of a scale subresource."""
    scale = subresources.get("scale")
    if not isinstance(scale, dict):
        return
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        said, place = text(scale, key), f"{path}.scale.{key}"
        if not said:
            yield required(place)
        elif not said.startswith("."):
            yield invalid(place, said, "must be a simple json path starting with .")
        elif not said.startswith(root):
            yield invalid(place, said, f"should be a json path under {root[:-1]}")
    said, place = text(scale, "labelSelectorPath"), f"{path}.scale.labelSelectorPath"
    if said and not said.startswith("."):
        yield invalid(place, said, "must be a simple json path starting with .")
    elif said and not said.startswith((".spec.", ".status.")):
        yield invalid(place, said, "should be a json path under either .spec or .status")


def check_columns(columns: list[Object], path: str) -> Iterator[FieldError]:
    """Yield what is wrong with printer columns."""
    for index, column in enumerate(columns):
        place, types = f"{path}[{index}]", f"must be one of {','.join(_COLUMN_TYPES)}"
        if not text(column, "name"):
            yield required(f"{place}.name")
        if not text(column, "type"):
            yield required(f"{place}.type", types)
        elif text(column, "type") not in _COLUMN_TYPES:
            yield invalid(f"{place}.type", text(column, "type"), types)
        if text(column, "format") and text(column, "format") not in _COLUMN_FORMATS:
            yield invalid(f"{place}.format", text(column, "format"), f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not text(column, "jsonPath"):
            yield required(f"{place}.JSONPath")
        elif not text(column, "jsonPath").startswith("."):
            yield invalid(f"{place}.JSONPath", text(column, "jsonPath"), "must be a simple json path starting with .")


def check_selectable(fields: list[Object], openapi: Node, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with fields that selectors may name."""
    seen: set[str] = set()
    for index, field in enumerate(fields):
        said, place = text(field, "jsonPath"), f"{path}[{index}].jsonPath"
        if not said:
            yield required(place)
            continue
        node = _find(openapi, said)
        if node is None:
            yield invalid(place, said, "is an invalid path: does not refer to a valid field")
            continue
        if said.startswith(".metadata"):
            yield invalid(place, said, "must not point to fields in metadata")
        if type_of(node) not in {"string", "boolean", "integer"}:
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(place, said, detail)
        if said in seen:
            yield duplicate(place, said)
        seen.add(said)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def _find(openapi: Node, path: str) -> Node | None:
    if not path.startswith("."):
        return None
    node: Node | None = openapi
    for part in path[1:].split("."):
        node = properties_of(node).get(part) if node is not None else None
    return node
