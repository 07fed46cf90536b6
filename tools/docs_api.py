"""Renders the API reference from the CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS

HEAD = """# Kinds

Rendered from the CustomResourceDefinitions by `make docs`. The groups and fields are those of Open Cluster Management.
`kubectl explain KIND` prints the same; what conditions say is in [conditions and events](conditions.md).
"""

CONDITION_FIELDS = {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
STANDARD = ("apiVersion", "kind", "metadata")
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def render_api() -> str:
    """Return the page: the hub's kinds, then those of a managed cluster."""
    groups = (("On the hub", (*HUB_CRDS, *ACCOUNT_CRDS)), ("On a managed cluster", MANAGED_CRDS))
    lines = [HEAD]
    for title, definitions in groups:
        lines += [f"## {title}", ""]
        for definition in definitions:
            lines += _kind(definition)
    return "\n".join(lines)


def _kind(definition: Mapping[str, Any]) -> Iterator[str]:
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
        yield from ("| field | type | meaning |", "|---|---|---|")
        yield from _fields(schema, "")
        yield ""


def _fields(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, node in schema.get("properties", {}).items():
        if not prefix and name in STANDARD:
            continue
        path = f"{prefix}.{name}" if prefix else name
        yield f"| `{path}` | {_type(node)} | {_meaning(node, required=name in required)} |"
        if not _is_conditions(node):
            yield from _fields(_inner(node), path + ("[]" if node.get("type") == "array" else ""))


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
    limits = [f"{name} {node[name]}" for name in LIMITS if name in node]
    if limits:
        notes.append(f"({', '.join(limits)})")
    notes += [f"Rule: {rule['message']}." for rule in node.get("x-kubernetes-validations", ()) if rule.get("message")]
    return " ".join(note for note in notes if note)
