"""Values are Structs: a process creates all its classes at each start, and a dataclass takes forty times as long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "watchword"
ONLY_DATACLASSES = {"init", "compare", "hash"}  # what a Struct cannot say about a field


def is_value_dataclass(decorator: ast.expr) -> bool:
    """Whether a decorator makes a frozen dataclass."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Name):
        return False
    options = {keyword.arg for keyword in decorator.keywords}
    return decorator.func.id == "dataclass" and "frozen" in options


def has_own_equality(class_: ast.ClassDef) -> bool:
    """Whether a class defines its own equality: a Struct would keep its own `!=` beside it."""
    return any(isinstance(each, ast.FunctionDef) and each.name == "__eq__" for each in class_.body)


def has_special_field(class_: ast.ClassDef) -> bool:
    """Whether a field says what only a dataclass can say."""
    calls = [each.value for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.value, ast.Call)]
    return any(keyword.arg in ONLY_DATACLASSES for call in calls for keyword in call.keywords)


def classes_in(module: Path) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module."""
    return (node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.ClassDef))


def hidden_names(class_: ast.ClassDef) -> set[str]:
    """Return the fields that a class leaves out of its representation."""
    named = (each for each in class_.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "hidden")
    return {name for each in named for name in ast.literal_eval(each.value)}


def test_every_value_that_can_be_a_struct_is_one() -> None:
    found = [
        f"{path.relative_to(SOURCES)}: {node.name}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in classes_in(path)
        if any(is_value_dataclass(each) for each in node.decorator_list) and not has_special_field(node)
        if not has_own_equality(node)
    ]

    assert found == []


def test_every_hidden_name_is_a_field() -> None:
    found = {
        f"{path.relative_to(SOURCES)}: {node.name}": sorted(hidden_names(node) - fields_of(node))
        for path in sorted(SOURCES.rglob("*.py"))
        for node in classes_in(path)
        if hidden_names(node)
    }

    assert len(found) > 20
    assert {name: unknown for name, unknown in found.items() if unknown} == {}


def fields_of(class_: ast.ClassDef) -> set[str]:
    """Return the fields that a class declares."""
    return {
        each.target.id for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
