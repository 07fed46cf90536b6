"""Component schemas of the built-in kinds, drawn from their tables."""

from collections.abc import Iterator
from typing import Any

from watchword.api.meta import Object
from watchword.apiserver.kinds.messages import META, SCALARS, UNIONS, Field, Messages
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.kinds.typed import SCHEMA

REFERENCE = "#/components/schemas/"
OBJECT_META = f"{META}.ObjectMeta"
LIST_META = f"{META}.ListMeta"

API_VERSION: Object = {"type": "string", "description": "APIVersion defines group and version of this object's schema"}
KIND: Object = {"type": "string", "description": "Kind is the name of this object's schema"}

_SCALARS: dict[str, Object] = {
    **{name: {"type": schema.type, **schema.constraints} for name, schema in SCALARS.items()},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "strings": {"type": "array", "items": {"type": "string"}},
    # kubectl explain stumbles over an empty schema
    "json": {"x-kubernetes-preserve-unknown-fields": True},
    **{name: {"$ref": f"{REFERENCE}{SCHEMA}"} for name in UNIONS},
}


def reference(name: str) -> Object:
    return {"$ref": f"{REFERENCE}{name}"}


def described(schema: Object, description: str) -> Object:
    """Return the schema with a description; a reference takes it through `allOf`."""
    if not description:
        return schema
    if "$ref" in schema:
        return {"description": description, "allOf": [schema]}
    return {"description": description, **schema}


def closure(messages: Messages, roots: list[str]) -> Iterator[str]:
    """Yield every message that the roots lead to, each once."""
    seen, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        waiting.extend(each.type for each in messages.json_fields(name) if each.is_message)


def message_schema(messages: Messages, name: str, *, root: bool = False) -> Object:
    """Return the component of one message; a root also has apiVersion and kind."""
    message = messages[name]
    fields = list(messages.json_fields(name))
    properties = {each.name: _property(each) for each in fields}
    schema: Object = {"type": "object"}
    if message.description:
        schema["description"] = message.description
    if root:
        properties = {"apiVersion": API_VERSION, "kind": KIND, **properties}
    if properties:
        schema["properties"] = properties
    required = [each.name for each in fields if each.required]
    if required:
        schema["required"] = required
    if message.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _property(each: Field) -> Object:
    inner = reference(each.type) if each.is_message else dict(_SCALARS[each.type])
    if each.shape == "list":
        inner = {"type": "array", "items": inner, **_list_type(each)}
    elif each.shape == "map":
        inner = {"type": "object", "additionalProperties": inner}
        if each.atomic:
            inner["x-kubernetes-map-type"] = "atomic"
    shown = described(inner, each.description)
    if each.patch_strategy:
        shown = dict(shown) if "$ref" not in shown else {"allOf": [shown]}
        shown["x-kubernetes-patch-strategy"] = each.patch_strategy
    if each.patch_merge_key:
        shown["x-kubernetes-patch-merge-key"] = each.patch_merge_key
    return shown


def _list_type(each: Field) -> Object:
    if each.list_type == "map":
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(each.list_map_keys)}
    return {"x-kubernetes-list-type": each.list_type}


_JUNCTORS = ("allOf", "anyOf", "oneOf")
_METADATA = described(reference(OBJECT_META), "Standard object's metadata: name, labels, owners and revision")


def root_schema(schema: Schema) -> Object:
    """Return the component of a whole custom object."""
    drawn = to_openapi(schema)
    drawn["properties"] = {
        **drawn.get("properties", {}),
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _METADATA,
    }
    return drawn


def to_openapi(schema: Schema) -> Object:
    drawn: Object = {}
    if schema.description:
        drawn["description"] = schema.description
    drawn |= _type(schema)
    if schema.properties:
        drawn["properties"] = {name: to_openapi(below) for name, below in schema.properties.items()}
    if schema.additional is not None:
        drawn["additionalProperties"] = to_openapi(schema.additional)
    if schema.items is not None:
        drawn["items"] = to_openapi(schema.items)
    if schema.required:
        drawn["required"] = list(schema.required)
    if schema.nullable:
        drawn["nullable"] = True
    if schema.has_default:
        drawn["default"] = schema.default
    drawn |= {name: _constraint(name, value) for name, value in schema.constraints.items()}
    # kubectl explain stumbles over an empty schema
    return drawn | _extensions(schema) or {"x-kubernetes-preserve-unknown-fields": True}


def _type(schema: Schema) -> Object:
    if schema.type == "int-or-string":
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    return {} if schema.type == "any" else {"type": schema.type}


def _constraint(name: str, value: Any) -> Any:
    if name in _JUNCTORS:
        return [to_openapi(each) for each in value]
    return to_openapi(value) if isinstance(value, Schema) else value


def _extensions(schema: Schema) -> Object:
    found: Object = {}
    if schema.preserve_unknown:
        found["x-kubernetes-preserve-unknown-fields"] = True
    if schema.embedded_resource:
        found["x-kubernetes-embedded-resource"] = True
    if schema.type == "array" and schema.list_type != "atomic":
        found["x-kubernetes-list-type"] = schema.list_type
        if schema.list_map_keys:
            found["x-kubernetes-list-map-keys"] = list(schema.list_map_keys)
    if schema.map_type == "atomic":
        found["x-kubernetes-map-type"] = "atomic"
    if schema.rules:
        found["x-kubernetes-validations"] = [dict(rule) for rule in schema.rules]
    return found
