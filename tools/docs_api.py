"""Renders the API reference from the CustomResourceDefinitions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS

HEAD = """# Kinds

Rendered from the CustomResourceDefinitions by `make docs`. The groups and fields are those of Open Cluster Management.
`kubectl explain KIND` prints the same; what conditions say is in [conditions and events](conditions.md).

**Bold** fields are required. `[]` marks a list, `{}` a map; a field without a type is a text or an object.
`conditions` are those of Kubernetes. An object that occurs again is described once, at the field named by "as". The
API server names the limit of a value that is too large.
"""

CONDITION_FIELDS = {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
OBVIOUS = ("The API group.", "The API group; empty for core.", "The API version.", "The resource, plural.")
BARE = re.compile(r" *- \**`[^`]+`\**(?:, \**`[^`]+`\**)*")
FORMATS = {"date-time": "time", "byte": "base64"}
STANDARD = ("apiVersion", "kind", "metadata")
MIN_SHARED_FIELDS = 2  # objects with fewer are described wherever they occur


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
    for index, version in enumerate(spec["versions"]):
        schema = version["schema"]["openAPIV3Schema"]
        called = f"`{spec['group']}/{version['name']}`"
        if index == 0:
            yield from (schema.get("description", ""), "")
            called += f", `{names['plural']}`{f' (short: {short})' if short else ''}, {scope}"
        yield from (f"{called}.", "")
        yield from _joined([*_fields(schema, "", f"{names['kind']} {version['name']}", known)])
        yield ""


def _joined(lines: Sequence[str]) -> list[str]:
    """Put neighbouring fields that have a name alone on one line."""
    found: list[str] = []
    for index, line in enumerate(lines):
        indent = line.partition("-")[0]
        is_leaf = not "".join(lines[index + 1 : index + 2]).startswith(f"{indent}  ")
        if (
            is_leaf
            and BARE.fullmatch(line)
            and found
            and BARE.fullmatch(found[-1])
            and found[-1].startswith(f"{indent}- ")
        ):
            found[-1] += line.replace(f"{indent}- ", ", ")
        else:
            found.append(line)
    return found


def _fields(schema: Mapping[str, Any], prefix: str, kind: str, known: dict[str, str]) -> Iterator[str]:
    """Return the rows of an object's fields; an object that occurred before (`known`) is only named."""
    required = schema.get("required", ())
    for name, node in schema.get("properties", {}).items():
        if not prefix and name in STANDARD:
            continue
        path = f"{prefix}.{name}" if prefix else name
        inner = {} if _is_conditions(node) else _inner(node)
        place = path + ("[]" if node.get("type") == "array" else "")
        meaning = _meaning(name, node)
        here = first = f"{kind} {place}"
        if len(inner.get("properties", {})) >= MIN_SHARED_FIELDS:
            first = known.setdefault(json.dumps(inner["properties"], sort_keys=True), here)
        if first != here:
            meaning = f"{meaning} As `{first.removeprefix(f'{kind} ')}`.".lstrip()
        mark, named = ("", "") if _is_conditions(node) else _type(node)
        shown = f"**`{name}{mark}`**" if name in required else f"`{name}{mark}`"
        note = "" if _is_conditions(node) or not meaning else f": {meaning}"
        yield f"{'  ' * path.count('.')}- {shown}{named}{note}"
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


def _type(node: Mapping[str, Any]) -> tuple[str, str]:
    """Return `[]` for a list or `{}` for a map, and the type unless it is a text or an object."""
    mark = "[]" if node.get("type") == "array" else "{}" if _inner(node) is node.get("additionalProperties") else ""
    inner = _inner(node) if mark else node
    if inner.get("x-kubernetes-int-or-string"):
        named = "quantity"
    elif inner.get("x-kubernetes-embedded-resource"):
        named = "any kind"
    else:
        named = FORMATS.get(str(inner.get("format")), str(inner.get("type", "anything")))
    return mark, f" ({named})" if named not in ("string", "object") else ""


def _meaning(name: str, node: Mapping[str, Any]) -> str:
    said = str(node.get("description", "")).replace("|", "\\|")
    notes = [] if said.rstrip(".").lower() in (f"the {name}", f"its {name}") or said in OBVIOUS else [said]
    if "enum" in node:
        notes.append("One of " + ", ".join(f"`{value}`" for value in node["enum"]) + ".")
    default = node.get("default")
    if default not in (None, "") and not isinstance(default, Mapping | list):
        notes.append(f"Default: `{str(default).lower() if isinstance(default, bool) else default}`.")
    notes += [f"Rule: {rule['message']}." for rule in node.get("x-kubernetes-validations", ()) if rule.get("message")]
    return " ".join(note for note in notes if note)
