"""Every cache has bounds, and its row on the page of caches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "watchword"
PAGE = ROOT / "docs" / "reference" / "caches.md"
BOUNDED = {"ExpiringMap", "TokenBuckets", "lru_cache"}
DECORATORS = {"cache", "lru_cache"}
MENTION = re.compile(r"\b(ExpiringMap|TokenBuckets|lru_cache|cache|deque)\b")


def names_of_caches(tree: ast.Module) -> Iterator[str]:
    """Return what makes a cache in a module: calls and decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from (each.id for each in node.decorator_list if isinstance(each, ast.Name) and each.id in DECORATORS)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            is_window = node.func.id == "deque" and any(key.arg == "maxlen" for key in node.keywords)
            yield from [node.func.id] if is_window or node.func.id in BOUNDED else []


def modules_with_caches() -> Iterator[str]:
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        text = path.read_text()
        is_user = name not in {"api.expiring_map", "api.rate_limit"} and MENTION.search(text)
        if is_user and any(names_of_caches(ast.parse(text))):
            yield name


def test_every_cache_is_on_the_page() -> None:
    page, modules = PAGE.read_text(), list(modules_with_caches())

    assert len(modules) > 10
    assert [module for module in modules if f"`{module}`" not in page] == []


def test_every_module_of_the_page_exists() -> None:
    table = PAGE.read_text().partition("|---|")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z_0-9.]+)`", table)

    assert [name for name in named if not (SOURCES / f"{name.replace('.', '/')}.py").exists()] == []
