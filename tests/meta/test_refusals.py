"""No reconciler reports a refusal and stops: the controller learns of each, and looks at its key again.

`runtime/status.py` and `runtime/event_recorder.py` note every refusal, and `runtime/controller.py` repeats a reconcile
that noted one. So it is enough that every reconciler is run by the controller, and reports by these two.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "watchword"
OTHER_STATUS_WRITERS = {
    "accounts/exports.py",  # addresses of clusters, for other tools
    "addons/hub/certificate_approval.py",  # certificates
    "registration/grpc/hub.py",  # certificates
    "registration/grpc/server/publishing.py",  # what agents report
}
EMBEDDED = ("apiserver", "testing")
"""These have controllers of Kubernetes, not ours."""


@cache
def product_modules() -> Mapping[str, ast.Module]:
    names = (str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py")))
    return {name: ast.parse((SOURCE / name).read_text()) for name in names if not name.startswith(EMBEDDED)}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def reconcilers() -> list[str]:
    return [
        f"{name}:{node.name}"
        for name, tree in product_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(is_reconcile(member) for member in node.body)
    ]


def is_reconcile(node: ast.AST) -> bool:
    return isinstance(node, ast.AsyncFunctionDef) and node.name == "reconcile"


def test_every_reconciler_is_found() -> None:
    assert len(reconcilers()) > 40


@pytest.mark.parametrize("reconciler", reconcilers())
def test_reconcile_is_run_by_the_controller_with_an_outcome(reconciler: str) -> None:
    module, _, name = reconciler.partition(":")
    tree = product_modules()[module]
    (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    (method,) = (member for member in found.body if isinstance(member, ast.AsyncFunctionDef) and is_reconcile(member))

    assert [argument.arg for argument in method.args.args] == ["self", "key"]
    assert ast.unparse(method.returns or ast.Constant(None)) == "Outcome"


def test_nothing_but_the_controller_runs_a_reconciler() -> None:
    callers = {
        name
        for name, tree in product_modules().items()
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "reconcile"
    }
    assert callers == {"runtime/controller.py"}


def test_conditions_are_written_by_the_status_writer_alone() -> None:
    writers = {
        name
        for name, tree in product_modules().items()
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("patch", "update", "apply")
        for keyword in call.keywords
        if keyword.arg == "subresource" and ast.unparse(keyword.value) == "'status'"
    }
    assert writers - OTHER_STATUS_WRITERS == {"runtime/status.py"}
