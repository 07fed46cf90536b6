"""Every metric is written by the code that it describes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "watchword"
DECLARED_IN = SOURCE / "runtime" / "metrics.py"
KINDS = {"counter", "gauge", "histogram"}
BOUNDED = {"controller", "state", "result", "resource", "kind", "cluster", "reason", "manager", "field"}
"""Labels whose values are few: names of our own, or held in bounds by a `LabelBudget`."""

PROMISED = {
    "watchword_credential_expires_seconds",
    "watchword_rotation",
    "watchword_rotation_remaining_ratio",
    "watchword_revocation_seconds",
    "watchword_join_seconds",
    "watchword_watch_last_event_age_seconds",
    "watchword_clock_skew_seconds",
    "watchword_denied",
    "watchword_field_conflict",
    "watchword_quarantined_objects",
}


def declarations() -> Iterator[tuple[str, str, ast.Call]]:
    """Return the name, the attribute and the making of every metric."""
    for node in ast.walk(ast.parse(DECLARED_IN.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made, place = node.value, node.targets[0]
            if isinstance(made.func, ast.Attribute) and isinstance(made.func.value, ast.Call):
                made = made.func.value  # `.labels()` of a metric without labels
            is_metric = isinstance(made.func, ast.Attribute) and made.func.attr in KINDS
            if is_metric and isinstance(place, ast.Attribute) and isinstance(made.args[0], ast.Constant):
                yield str(made.args[0].value), place.attr, made


METRICS = {name: (attribute, made) for name, attribute, made in declarations()}


def ways_to_write(attribute: str) -> set[str]:
    """Return what others may use to write a metric: the attribute itself, or the methods that do."""
    if not attribute.startswith("_"):
        return {attribute}
    found = set()
    for node in ast.walk(ast.parse(DECLARED_IN.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            used = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            if attribute in used:
                found.add(node.name)
    return found


def used_elsewhere() -> set[str]:
    """Return every attribute that the other modules of the product use."""
    modules = [path for path in SOURCE.rglob("*.py") if path != DECLARED_IN and "testing" not in path.parts]
    return {name for path in modules for name in re.findall(r"\.([a-z_]+)\b", path.read_text())}


USED = used_elsewhere()


def test_every_documented_metric_is_declared() -> None:
    assert METRICS.keys() >= PROMISED


@pytest.mark.parametrize("name", sorted(METRICS))
def test_metric_is_written(name: str) -> None:
    attribute, _ = METRICS[name]

    assert ways_to_write(attribute) & USED, f"nobody writes {name}"


@pytest.mark.parametrize("name", sorted(METRICS))
def test_its_labels_are_bounded(name: str) -> None:
    _, made = METRICS[name]

    labels = {str(ast.literal_eval(label)) for label in made.args[2:]}

    assert labels <= BOUNDED
