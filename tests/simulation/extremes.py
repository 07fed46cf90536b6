"""Extreme values for every field of a custom resource, as its schema permits them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Resource

LONGEST = 60_000
FITTING = ("x", "work-agent-x", "example.com/hostile")
"""For strings with a pattern: the first that matches."""


def schema_of(resource: Resource, *path: str) -> Mapping[str, Any]:
    """Return the schema of one field of a kind of the hub."""
    names = [(crd, crd["spec"]["names"]["plural"], crd["spec"]["group"]) for crd in HUB_CRDS]
    crd = next(crd for crd, plural, group in names if (plural, group) == (resource.plural, resource.group))
    version = next(each for each in crd["spec"]["versions"] if each["name"] == resource.version)
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    for name in path:
        schema = schema["properties"][name]
    return schema


def extreme_value(schema: Mapping[str, Any], text: str) -> Any:
    """Return a value with every field that a schema knows; the text is what strings hold."""
    match schema.get("type"):
        case "object":
            return {name: extreme_value(field, text) for name, field in schema.get("properties", {}).items()}
        case "array":
            return [extreme_value(schema["items"], text)]
        case "integer":
            return int(schema.get("maximum", 2**63 - 1))
        case "boolean":
            return True
        case _:
            return _extreme_text(schema, text)


def _extreme_text(schema: Mapping[str, Any], text: str) -> str:
    if schema.get("format") == "date-time":
        return "9999-12-31T23:59:59Z"
    if "enum" in schema:
        return str(schema["enum"][-1])
    if "pattern" in schema:
        return next(fit for fit in FITTING if re.search(schema["pattern"], fit))
    return text[: schema.get("maxLength", LONGEST)]


def paths_of(value: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the path of every field that a value has."""
    yield path
    for one in value if isinstance(value, list | tuple) else ():
        yield from paths_of(one, *path)
    for name, field in value.items() if isinstance(value, Mapping) else ():
        yield from paths_of(field, *path, name)
