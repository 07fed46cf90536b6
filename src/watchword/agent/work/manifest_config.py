"""How a work asks for single manifests to be treated: by which strategy, with what reported back, kept or not."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectRef

FIELD_MANAGER = "work-agent"
UNDELETABLE_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Namespaces that no server lets go: owning one would only keep its work from ever being removed."""


class Strategy(StrEnum):
    """How an object is kept as wanted."""

    UPDATE = "Update"
    CREATE_ONLY = "CreateOnly"
    SERVER_SIDE_APPLY = "ServerSideApply"
    READ_ONLY = "ReadOnly"


class ManifestConfig(Struct, frozen=True):
    """What the configuration of a work says about one manifest."""

    strategy: Strategy = Strategy.UPDATE
    manager: str = FIELD_MANAGER
    force: bool = False
    ignored: tuple[Object, ...] = ()
    feedback: tuple[Object, ...] = ()
    rules: tuple[Object, ...] = field(default=())


def choose_manifest_config(spec: Mapping[str, Any], target: ObjectRef) -> ManifestConfig:
    """Return the configuration of one object: an exact match first, then a match by pattern."""
    matching = [row for row in spec.get("manifestConfigs") or () if is_match(row.get("resourceIdentifier"), target)]
    exact = [row for row in matching if is_exact_match(row.get("resourceIdentifier"), target)]
    return read_manifest_config((exact or matching)[0]) if matching else ManifestConfig()


def read_manifest_config(config: Mapping[str, Any]) -> ManifestConfig:
    """Read one configuration; an unknown strategy is read as the one that writes nothing."""
    asked = config.get("updateStrategy") or {}
    kind = asked.get("type") or Strategy.UPDATE
    apply = asked.get("serverSideApply") or {}
    manager = str(apply.get("fieldManager") or FIELD_MANAGER)
    return ManifestConfig(
        Strategy(kind) if kind in set(Strategy) else Strategy.READ_ONLY,
        manager if manager.startswith(FIELD_MANAGER) else FIELD_MANAGER,
        force=apply.get("force") is True,
        ignored=tuple(apply.get("ignoreFields") or ()),
        feedback=tuple(config.get("feedbackRules") or ()),
        rules=tuple(config.get("conditionRules") or ()),
    )


def is_orphaned(spec: Mapping[str, Any], target: ObjectRef) -> bool:
    """Whether an object outlives its work."""
    if target.identity[:2] == ("", "namespaces") and target.key.name in UNDELETABLE_NAMESPACES:
        return True
    option = spec.get("deleteOption") or {}
    policy = option.get("propagationPolicy") or "Foreground"
    if policy == "SelectivelyOrphan":
        rules = (option.get("selectivelyOrphans") or {}).get("orphaningRules") or ()
        return any(is_match(rule, target) for rule in rules)
    return bool(policy == "Orphan")


def is_exact_match(identifier: Any, target: ObjectRef) -> bool:
    """Whether an identifier is exactly that of an object."""
    return isinstance(identifier, Mapping) and _coordinates(identifier) == target.identity


def is_match(identifier: Any, target: ObjectRef) -> bool:
    """Whether an identifier, in which `*` stands for anything in namespace and name, includes an object."""
    if not isinstance(identifier, Mapping):
        return False
    group, resource, namespace, name = _coordinates(identifier)
    same_kind = (group, resource) == target.identity[:2]
    return same_kind and matches_pattern(namespace, target.key.namespace) and matches_pattern(name, target.key.name)


def _coordinates(identifier: Mapping[str, Any]) -> tuple[str, str, str, str]:
    group, resource, namespace, name = (
        str(identifier.get(field) or "") for field in ("group", "resource", "namespace", "name")
    )
    return group, resource, namespace, name


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern says, in time proportional to both."""
    first, *others = pattern.split("*")
    if not others:
        return pattern == text
    *middle, last = others
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    rest = text[len(first) : len(text) - len(last)]
    for part in middle:
        _, found, rest = rest.partition(part) if part else ("", "-", rest)
        if not found:
            return False
    return True
