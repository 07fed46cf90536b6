"""The embedded control plane knows the kinds of Kubernetes alone: rules about others are admission policies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import watchword.apiserver
import watchword.cel
from watchword.api.meta import Resource

FOLDERS = [Path(path) for package in (watchword.apiserver, watchword.cel) for path in package.__path__]
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
FOREIGN = re.compile(
    r"open-cluster-management|watchword\.dev|managed-?cluster|cluster-?sets?\b|hubAccepts|klusterlet|cluster-?manager\b"
    r"|manifest-?work|managed-?service-?account|add-?on",
    re.IGNORECASE,
)
KUBERNETES_GROUPS = re.compile(r"(?:[a-z.]+\.k8s\.io)?|apps|batch|autoscaling|policy", re.ASCII)
GENERAL = {
    *("conditions", "expiring_map", "http", "json", "jsonpath", "limits", "meta", "quantity", "rate_limit"),
    *("selectors", "sensitive", "time", "validation"),
}
"""Modules of `api` that are not about any kind."""
MIXED = {"bootstrap", "credential_report", "resources"}
"""Modules of `api` with names of Kubernetes beside others: what is imported of them is looked at."""


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == "watchword.api":
                modules = {alias.name for alias in node.names}
                yield from (
                    (f"watchword.api.{module}", name) for module, name in _attributes(nodes) if module in modules
                )
            else:
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _attributes(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


def _is_of_kubernetes(module: str, name: str) -> bool:
    part = module.removeprefix("watchword.api.").partition(".")[0]
    if part not in MIXED:
        return part in GENERAL
    value = getattr(import_module(module), name)
    foreign_group = isinstance(value, Resource) and not KUBERNETES_GROUPS.fullmatch(value.group)
    return not foreign_group and not FOREIGN.search(str(value))


def test_no_name_of_another_kind() -> None:
    found = {str(path): FOREIGN.findall(path.read_text()) for path in FILES}

    assert {path: names for path, names in found.items() if names} == {}


def test_imports_of_the_api_are_of_kubernetes() -> None:
    found = [
        (str(path), module, name)
        for path in FILES
        for module, name in _imports(path)
        if module.startswith("watchword.api.") and not _is_of_kubernetes(module, name)
    ]

    assert found == []
