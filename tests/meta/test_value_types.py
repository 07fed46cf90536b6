"""Values are Structs: a process creates all its classes at each start, and a dataclass takes forty times as long."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "watchword"
ONLY_DATACLASSES = {"init", "repr", "compare", "hash"}  # what a Struct cannot say about a field


def is_value_dataclass(decorator: ast.expr) -> bool:
    """Whether a decorator makes a frozen dataclass with slots."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Name):
        return False
    options = {keyword.arg for keyword in decorator.keywords}
    return decorator.func.id == "dataclass" and {"frozen", "slots"} <= options


def has_special_field(class_: ast.ClassDef) -> bool:
    """Whether a field says what only a dataclass can say."""
    calls = [each.value for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.value, ast.Call)]
    return any(keyword.arg in ONLY_DATACLASSES for call in calls for keyword in call.keywords)


def test_every_value_that_can_be_a_struct_is_one() -> None:
    found = [
        f"{path.relative_to(SOURCES)}: {node.name}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        if any(is_value_dataclass(each) for each in node.decorator_list) and not has_special_field(node)
    ]

    assert found == []
