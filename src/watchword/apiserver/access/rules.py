"""Policy rules: what one rule allows, and whether rules cover other rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct, convert, field

from watchword.apiserver.serving.errors import quote
from watchword.apiserver.serving.model import RequestInfo

ALL = "*"


class Rule(Struct, frozen=True, omit_defaults=True):
    """One PolicyRule. Empty `names` means every name; `urls` excludes the other three."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = field(default=(), name="apiGroups")
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=(), name="resourceNames")
    urls: tuple[str, ...] = field(default=(), name="nonResourceURLs")

    def allows(self, info: RequestInfo, combined: str) -> bool:
        """Whether this rule alone allows it; `combined` is `resource` or `resource/subresource`."""
        if info.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not info.is_resource:
            return any(_url_covers(url, info.path) for url in self.urls)
        if info.group not in self.groups and ALL not in self.groups:
            return False
        if not _resource_covers(self.resources, combined):
            return False
        return not self.names or info.name in self.names

    def single(self) -> Iterator[Rule]:
        """Break into rules of one verb, one resource and at most one name each."""
        names: list[tuple[str, ...]] = [(name,) for name in self.names] or [()]
        for group, resource, verb, name in product(self.groups, self.resources, self.verbs, names):
            yield Rule((verb,), (group,), (resource,), name)
        for url, verb in product(self.urls, self.verbs):
            yield Rule((verb,), urls=(url,))

    def covers(self, single: Rule) -> bool:
        """Whether holding this rule means holding that single one."""
        return (
            _has_all(self.verbs, single.verbs)
            and _has_all(self.groups, single.groups)
            and all(_resource_covers(self.resources, wanted) for wanted in single.resources)
            and (not self.names or (bool(single.names) and set(single.names) <= set(self.names)))
            and all(any(_url_covers(held, wanted) for held in self.urls) for wanted in single.urls)
        )

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted_list(values)}" for name, values in parts if values) + "}"


def read_rules(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    # A typed object has null where a list is absent; validation, which refuses a rule without verbs, comes later.
    rows = [{name: value for name, value in row.items() if value is not None} for row in role.get("rules") or ()]
    return convert(rows, tuple[Rule, ...])


def uncovered(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the rules among `wanted` that no other rule covers."""
    return [
        single for rule in wanted for single in rule.single() if not any(holding.covers(single) for holding in held)
    ]


def compacted(singles: Iterable[Rule]) -> list[Rule]:
    joined: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for rule in singles:
        joined.setdefault((rule.groups, rule.resources, rule.names, rule.urls), []).extend(rule.verbs)
    rows: list[Rule] = []
    for (groups, resources, names, urls), verbs in joined.items():
        if urls:  # upstream joins resource rules only
            rows.extend(Rule((verb,), urls=urls) for verb in verbs)
        else:
            rows.append(Rule(tuple(verbs), groups, resources, names))
    return rows


def quoted_list(values: Iterable[str]) -> str:
    """Write a list as Kubernetes' messages do: `["a" "b"]`."""
    return "[" + " ".join(quote(value) for value in values) + "]"


def _has_all(held: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in held or set(wanted) <= set(held)


def _resource_covers(held: tuple[str, ...], wanted: str) -> bool:
    if ALL in held or wanted in held:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in held


def _url_covers(held: str, wanted: str) -> bool:
    return held == wanted or (held.endswith(ALL) and wanted.startswith(held.rstrip(ALL)))
