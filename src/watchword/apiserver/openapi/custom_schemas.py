"""Component schemas of custom kinds, drawn from the schema their definition gave."""

from __future__ import annotations

from typing import Any

from watchword.api.meta import Object
from watchword.apiserver.openapi.builtin_schemas import API_VERSION, KIND, OBJECT_META, described, reference
from watchword.apiserver.schema.model import Schema

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
    """Return a schema as an OpenAPI document writes it."""
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
