"""Only `drivers` knows which drivers there are: everything else asks a catalog."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchword.addons.catalog import ADDON_CATALOG
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import AnnotatesCluster

PACKAGE = Path(__file__).parents[2] / "src" / "watchword"
NAMES = {name for driver in CATALOG.drivers for name in (driver.name, *driver.aliases)}
NAMES |= {driver.name for driver in ADDON_CATALOG.drivers}
ANNOTATIONS = {
    name for driver in CATALOG.drivers if isinstance(driver, AnnotatesCluster) for name in driver.annotations
}
FOLDERS = {path.name for path in (PACKAGE / "drivers").iterdir() if (path / "__init__.py").is_file()}
COMMON_WORDS = {"token"}  # also a field of kubeconfigs and the verb of the command line: judged where it is compared

ALLOWED = ("drivers/", "api/crds/", "apiserver/", "testing/", "local/trials.py")
"""Where these words may stand: at home, in schemas, which are data, in what tests use, in the table of what
`watchword up` tries, and in the embedded control plane, which knows no drivers, but kinds with such short names and
probes of such types.
"""

COMMANDS_OF_ONE_DRIVER = {
    **{f"cli/{name}.py": "aws_irsa" for name in ("aws", "aws_get_token", "aws_output")},
    "cli/grpc_server.py": "grpc",
}
"""Commands that serve one driver alone, and which: they may import that driver and no other."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(ALLOWED):
            yield name, ast.parse(path.read_text())


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_of_one_driver(name: str) -> bool:
    parts = name.split(".")
    return parts[:2] == ["watchword", "drivers"] and len(parts) > 2 and parts[2] in FOLDERS


def texts_of(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def compared_with_driver(tree: ast.AST) -> Iterator[str]:
    """Return the texts that are compared with something that is called a driver."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "driver" in ast.unparse(node).lower():
            yield from texts_of(node)


def test_no_module_imports_one_driver() -> None:
    found = {
        name: [
            each
            for each in imports_of(tree)
            if is_of_one_driver(each) and each.split(".")[2] != COMMANDS_OF_ONE_DRIVER.get(name)
        ]
        for name, tree in modules()
    }

    assert {name: rows for name, rows in found.items() if rows} == {}


def test_no_module_names_a_driver_or_its_annotation() -> None:
    words = (NAMES | ANNOTATIONS) - COMMON_WORDS
    found = {
        name: (set(texts_of(tree)) & words) | (set(compared_with_driver(tree)) & NAMES) for name, tree in modules()
    }

    assert {name: rows for name, rows in found.items() if rows} == {}


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_no_driver_imports_another(folder: str) -> None:
    others = FOLDERS - {folder}
    trees = [ast.parse(path.read_text()) for path in (PACKAGE / "drivers" / folder).rglob("*.py")]

    found = {each for tree in trees for each in imports_of(tree) if is_of_one_driver(each)}

    assert {each for each in found if each.split(".")[2] in others} == set()


SHARED = "what both use"
OF_CLUSTERS = {"catalog", "cluster_driver", "cluster_certificate", "certificate_hub", "csr", "aws_irsa", "grpc"}
OF_ADDONS = {"addon_catalog", "addon_driver", "certificate", "token"}


def side_of(module: str) -> str:
    part = module.split(".")[2]
    return "clusters" if part in OF_CLUSTERS else "add-ons" if part in OF_ADDONS else SHARED


def test_drivers_of_clusters_and_of_addons_do_not_import_each_other() -> None:
    found = set()
    for path in sorted((PACKAGE / "drivers").rglob("*.py")):
        module = ".".join(("watchword", *path.relative_to(PACKAGE).with_suffix("").parts))
        imported = [
            each for each in imports_of(ast.parse(path.read_text())) if each.startswith("watchword.registration.")
        ]
        found |= {(module, each) for each in imported if side_of(each) not in (side_of(module), SHARED)}

    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from watchword.registration.csr.driver import OPTIONS", id="internals of one"),
        pytest.param("from watchword.registration import token", id="one itself"),
    ],
)
def test_import_of_one_driver_is_found(source: str) -> None:
    assert [each for each in imports_of(ast.parse(source)) if is_of_one_driver(each)]


def test_comparison_with_a_driver_is_found() -> None:
    assert list(compared_with_driver(ast.parse("if addon.driver == 'token': pass"))) == ["token"]
