"""Only the folders of drivers know which drivers there are: everything else asks a catalog."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.contracts import DRIVERS
from watchword.addons.catalog import ADDON_CATALOG
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import AnnotatesCluster

PACKAGE = Path(__file__).parents[2] / "src" / "watchword"
NAMES = {name for driver in CATALOG.drivers for name in (driver.name, *driver.aliases)}
NAMES |= {driver.name for driver in ADDON_CATALOG.drivers}
ANNOTATIONS = {
    name for driver in CATALOG.drivers if isinstance(driver, AnnotatesCluster) for name in driver.annotations
}
FOLDERS = {folder for folders in DRIVERS.values() for folder in folders}
COMMON_WORDS = {"token"}  # also a field of kubeconfigs and the verb of the command line: judged where it is compared

ALLOWED = (
    *(f"{folder.replace('.', '/')}/" for folder in sorted(FOLDERS)),
    *("registration/catalog.py", "addons/catalog.py", "apiserver/kinds/catalog.py", "local/trials.py"),
)
"""Where these words may stand: in the folders of drivers and in their catalogs, in the table of what `watchword up`
tries, and in the kinds of the embedded control plane, where `csr` is the short name of CertificateSigningRequest.
"""

COMMANDS_OF_ONE_DRIVER = {
    "cli/aws.py": "registration.aws_irsa",
    "cli/grpc_server.py": "registration.grpc",
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


def driver_of(name: str) -> str | None:
    """Return the folder of the driver that a module or a name in it belongs to; None when it belongs to none."""
    return next((each for each in FOLDERS if f"{name}.".startswith(f"watchword.{each}.")), None)


def texts_of(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def compared_with_driver(tree: ast.AST) -> Iterator[str]:
    """Return the texts that are compared with something that is called a driver."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "driver" in ast.unparse(node).lower():
            yield from texts_of(node)


def test_no_module_imports_one_driver() -> None:
    found = {
        name: [each for each in imports_of(tree) if driver_of(each) not in (None, COMMANDS_OF_ONE_DRIVER.get(name))]
        for name, tree in modules()
    }

    assert {name: rows for name, rows in found.items() if rows} == {}


def test_no_module_names_a_driver_or_its_annotation() -> None:
    words = (NAMES | ANNOTATIONS) - COMMON_WORDS
    found = {
        name: (set(texts_of(tree)) & words) | (set(compared_with_driver(tree)) & NAMES) for name, tree in modules()
    }

    assert {name: rows for name, rows in found.items() if rows} == {}


def test_every_driver_of_a_catalog_has_a_folder() -> None:
    modules_of_drivers = {type(driver).__module__ for driver in (*CATALOG.drivers, *ADDON_CATALOG.drivers)}

    assert {driver_of(module) for module in modules_of_drivers} == FOLDERS


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from watchword.registration.csr.driver import OPTIONS", id="internals of one"),
        pytest.param("from watchword.addons import token", id="one itself"),
    ],
)
def test_import_of_one_driver_is_found(source: str) -> None:
    assert [each for each in imports_of(ast.parse(source)) if driver_of(each)]


def test_comparison_with_a_driver_is_found() -> None:
    assert list(compared_with_driver(ast.parse("if addon.driver == 'token': pass"))) == ["token"]
