"""What a start does not import, and that all of it is there when it is needed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.helpers.fresh_imports import modules_after

import watchword
from watchword.apiserver.kinds.build import LazyFunction
from watchword.apiserver.kinds.catalog import BUILTINS

PACKAGE = Path(watchword.__file__).parent


def lazy_functions_of_kinds() -> list[LazyFunction]:
    """Return every stand-in of the catalogues."""
    return [
        rule
        for kind in BUILTINS
        for rule in (
            *kind.default, *kind.prepare, *kind.validate, *kind.selectable_fields.values(), kind.begin_deletion
        )
        if isinstance(rule, LazyFunction)
    ]  # fmt: skip


def lazy_functions_in_source() -> list[tuple[str, str]]:
    """Return module and name of every stand-in whose words stand in the code."""
    calls = [
        node
        for path in PACKAGE.rglob("*.py")
        if "LazyFunction(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LazyFunction"
    ]
    words = [[each.value for each in call.args if isinstance(each, ast.Constant)] for call in calls]
    return [(str(pair[0]), str(pair[1])) for pair in words if len(pair) == 2]


def test_every_rule_that_is_imported_late_exists() -> None:
    found = [rule.resolve() for rule in lazy_functions_of_kinds()]

    assert len(found) > 10
    assert all(callable(each) for each in found)


def test_every_function_that_is_imported_late_exists() -> None:
    found = lazy_functions_in_source()

    assert found
    assert all(callable(LazyFunction(module, name).resolve()) for module, name in found)


@pytest.mark.parametrize(
    "module",
    ["aiohttp", "joserfc", "yaml", "watchword.cel.evaluate", "watchword.apiserver.node.pods",
     "watchword.apiserver.documents.openapi", "watchword.apiserver.kinds.workloads",
     "watchword.apiserver.serving.strategic_patch"],
)  # fmt: skip
def test_a_start_does_not_wait_for_what_few_processes_use(module: str) -> None:
    assert module not in modules_after("watchword.apiserver.instance")
