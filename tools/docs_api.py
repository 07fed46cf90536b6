"""Renders the API reference from the CustomResourceDefinitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.crds.schema import LONGEST_TEXT, MOST_ITEMS
from watchword.api.limits import MAX_DOCUMENT_BYTES

HEAD = """# Kinds

Rendered from the CustomResourceDefinitions by `make docs`. The groups and fields are those of Open Cluster Management.
`kubectl explain KIND` prints the same; what conditions say is in [conditions and events](conditions.md).

Limits are named where they are narrower than these: a text has at most 65,536 characters, base64 2,097,152, a list
10,000 items. `conditions` are those of Kubernetes. An object that occurs again is described once, at the field named by
"Fields as".
"""

CONDITION_FIELDS = {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
STANDARD = ("apiVersion", "kind", "metadata")
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
# What `api/crds/schema.py` gives every field of its type, and 1 as the least length of a text that is required anyway.
COMMON_LIMITS = {
    ("minimum", 0),
    ("maximum", 2**31 - 1),
    ("maximum", 2**53),
    ("minLength", 1),
    ("maxLength", LONGEST_TEXT),
    ("maxLength", 2 * MAX_DOCUMENT_BYTES),
    ("maxItems", MOST_ITEMS),
}
MIN_SHARED_FIELDS = 3  # objects with fewer are described wherever they occur


def render_api() -> str:
    """Return the page: the hub's kinds, then those of a managed cluster."""
    groups = (("On the hub", (*HUB_CRDS, *ACCOUNT_CRDS)), ("On a managed cluster", MANAGED_CRDS))
    lines = [HEAD]
    known: dict[str, str] = {}
    for title, definitions in groups:
        lines += [f"## {title}", ""]
        for definition in definitions:
            lines += _kind(definition, known)
    return "\n".join(lines)


def _kind(definition: Mapping[str, Any], known: dict[str, str]) -> Iterator[str]:
    spec = definition["spec"]
    names = spec["names"]
    yield from (f"### {names['kind']}", "")
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", ()))
    scope = "in a namespace" if spec["scope"] == "Namespaced" else "for the whole cluster"
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        yield from (schema.get("description", ""), "")
        called = f"`{spec['group']}/{version['name']}`, `{names['plural']}`{f' (short: {short})' if short else ''}"
        yield from (f"{called}, {scope}.", "")
        yield from _fields(schema, "", f"{names['kind']} {version['name']}", known)
        yield ""


def _fields(schema: Mapping[str, Any], prefix: str, kind: str, known: dict[str, str]) -> Iterator[str]:
    """Return the rows of an object's fields; an object that occurred before (`known`) is only named."""
    required = schema.get("required", ())
    for name, node in schema.get("properties", {}).items():
        if not prefix and name in STANDARD:
            continue
        path = f"{prefix}.{name}" if prefix else name
        inner = {} if _is_conditions(node) else _inner(node)
        place = path + ("[]" if node.get("type") == "array" else "")
        meaning = _meaning(node, required=name in required)
        here = first = f"{kind} {place}"
        if len(inner.get("properties", {})) >= MIN_SHARED_FIELDS:
            first = known.setdefault(json.dumps(inner["properties"], sort_keys=True), here)
        if first != here:
            meaning += f" Fields as `{first.removeprefix(f'{kind} ')}`."
        depth = "  " * path.count(".")
        yield f"{depth}- `{name}`" + ("" if _is_conditions(node) else f" ({_type(node)}): {meaning}".rstrip(": "))
        if first == here:
            yield from _fields(inner, place, kind, known)


def _inner(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that holds a node's fields: its own, or that of what it is made of."""
    for name in ("items", "additionalProperties"):
        found = node.get(name)
        if isinstance(found, Mapping):
            return found
    return node


def _is_conditions(node: Mapping[str, Any]) -> bool:
    return set(_inner(node).get("properties", {})) == CONDITION_FIELDS


def _type(node: Mapping[str, Any]) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    if node.get("x-kubernetes-embedded-resource"):
        return "any object"
    if _is_conditions(node):
        return "conditions"
    if node.get("type") == "array":
        return f"list of {_type(node['items'])}"
    if isinstance(node.get("additionalProperties"), Mapping):
        return f"map to {_type(node['additionalProperties'])}"
    return {"date-time": "time", "byte": "base64"}.get(str(node.get("format")), str(node.get("type", "anything")))


def _meaning(node: Mapping[str, Any], *, required: bool) -> str:
    notes = [str(node.get("description", "")).replace("|", "\\|")]
    if required:
        notes.append("**Required.**")
    if "enum" in node:
        notes.append("One of " + ", ".join(f"`{value}`" for value in node["enum"]) + ".")
    default = node.get("default")
    if default not in (None, "") and not isinstance(default, Mapping | list):
        notes.append(f"Default: `{str(default).lower() if isinstance(default, bool) else default}`.")
    limits = [f"{name} {node[name]}" for name in LIMITS if name in node and (name, node[name]) not in COMMON_LIMITS]
    if limits:
        notes.append(f"({', '.join(limits)})")
    notes += [f"Rule: {rule['message']}." for rule in node.get("x-kubernetes-validations", ()) if rule.get("message")]
    return " ".join(note for note in notes if note)
