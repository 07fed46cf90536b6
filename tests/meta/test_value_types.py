"""Classes with fields are Structs: a process creates all of them at each start, a dataclass in forty times the time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "watchword"
ONLY_DATACLASSES = {"compare", "hash", "repr"}  # what a Struct cannot say about a field
DEFAULTS = {"default", "default_factory"}


def is_dataclass(class_: ast.ClassDef, *, frozen: bool = False) -> bool:
    """Whether a class is a dataclass, of the frozen ones where only they are meant."""
    made_by = [ast.unparse(each) for each in class_.decorator_list]
    return any(each.startswith("dataclass") and (not frozen or "frozen=True" in each) for each in made_by)


def has_own_equality(class_: ast.ClassDef) -> bool:
    """Whether a class defines its own equality: a Struct would keep its own `!=` beside it."""
    return any(isinstance(each, ast.FunctionDef) and each.name == "__eq__" for each in class_.body)


def has_special_field(class_: ast.ClassDef) -> bool:
    """Whether a field says what only a dataclass can say, or is filled after the others without a default."""
    calls = [each.value for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.value, ast.Call)]
    options = [{keyword.arg for keyword in call.keywords} for call in calls]
    return any(said & ONLY_DATACLASSES or ("init" in said and not said & DEFAULTS) for said in options)


def classes_with(word: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Yield the classes of every module in which a word stands."""
    for path in sorted(SOURCES.rglob("*.py")):
        if word in (text := path.read_text()):
            yield from ((path, node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))


def hidden_names(class_: ast.ClassDef) -> set[str]:
    """Return the fields that a class leaves out of its representation."""
    named = (each for each in class_.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "hidden")
    return {name for each in named for name in ast.literal_eval(each.value)}


def test_every_class_that_can_be_a_struct_is_one() -> None:
    found = [
        f"{path.relative_to(SOURCES)}: {node.name}"
        for path, node in classes_with("dataclass")
        # No program imports `testing`, and tests extend its classes.
        if is_dataclass(node, frozen=SOURCES / "testing" in path.parents) and not node.bases
        if not has_special_field(node) and not has_own_equality(node)
    ]

    assert found == []


def test_every_hidden_name_is_a_field() -> None:
    found = {
        f"{path.relative_to(SOURCES)}: {node.name}": sorted(hidden_names(node) - fields_of(node))
        for path, node in classes_with("hidden")
        if hidden_names(node)
    }

    assert len(found) > 20
    assert {name: unknown for name, unknown in found.items() if unknown} == {}


def fields_of(class_: ast.ClassDef) -> set[str]:
    """Return the fields that a class declares."""
    return {
        each.target.id for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
