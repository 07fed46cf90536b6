"""No reconciler reports a refusal and stops: the controller learns of each, and looks at its key again.

`runtime/status.py` and `runtime/event_recorder.py` note every refusal, and `runtime/controller.py` repeats a reconcile
that noted one. So it is enough that every reconciler is run by the controller, and reports by these two.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "watchword"
OTHER_STATUS_WRITERS = {
    "accounts/exports.py",  # addresses of clusters, for other tools
    "addons/hub/certificate_approval.py",  # certificates
    "registration/grpc/hub.py",  # certificates
    "registration/grpc/server/publishing.py",  # what agents report
}
EMBEDDED = ("apiserver", "testing")
"""These have controllers of Kubernetes, not ours."""
RECONCILE = r"async def reconcile\(self, key: \w+\) -> Outcome"


def product_modules(containing: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = str(path.relative_to(SOURCE)), path.read_text()
        if containing in text and not name.startswith(EMBEDDED):
            yield name, ast.parse(text)


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_every_reconcile_is_run_by_the_controller_with_an_outcome() -> None:
    signatures = {
        f"{name}:{node.name}": ast.unparse(member).partition(":\n")[0].splitlines()[-1]
        for name, tree in product_modules(containing="async def reconcile(")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.AsyncFunctionDef) and member.name == "reconcile"
    }

    assert len(signatures) > 40
    assert {name: found for name, found in signatures.items() if not re.fullmatch(RECONCILE, found)} == {}


def test_nothing_but_the_controller_runs_a_reconciler() -> None:
    callers = {
        name
        for name, tree in product_modules(containing=".reconcile(")
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "reconcile"
    }
    assert callers == {"runtime/controller.py"}


def test_conditions_are_written_by_the_status_writer_alone() -> None:
    writers = {
        name
        for name, tree in product_modules(containing="subresource")
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("patch", "update", "apply")
        for keyword in call.keywords
        if keyword.arg == "subresource" and ast.unparse(keyword.value) == "'status'"
    }
    assert writers - OTHER_STATUS_WRITERS == {"runtime/status.py"}
