"""Each import contract is derived from docs/architecture.md, and detects the imports that it forbids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import permutations
from pathlib import Path

import grimp
import pytest
from grimp import ImportGraph
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract

from tools.contracts import allowed_imports, derive_contracts, independent_folders, library_users

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
INDEPENDENT = independent_folders(ROOT)
SOURCE = ROOT / "src" / "watchword"
LAZY_FUNCTION = "watchword.apiserver.kinds.build"
NAMED = re.compile(r"\bwatchword(?:\.\w+)+")
CATALOGS = re.compile(r"watchword\.apiserver\.kinds\.catalog\w*")
TYPES = {"forbidden": ForbiddenContract, "independence": IndependenceContract}
SESSION = {"root_packages": ["watchword"], "include_external_packages": "True"}
CONFIGURATION = ConfigParser()
CONFIGURATION.read(ROOT / ".importlinter")


def forbidden_imports() -> Iterator[tuple[str, str, str]]:
    """Yield every import that the tables forbid: contract, importing module, imported module."""
    allowed = allowed_imports(PAGE)
    for package, other in permutations(allowed, 2):
        if other not in allowed[package]:
            yield f"imports-of-{package}", f"watchword.{package}", f"watchword.{other}"
    for contract, folders in INDEPENDENT.items():
        for one, other in permutations(folders, 2):
            yield contract, f"watchword.{one}", f"watchword.{other}"
    for library, users in library_users(PAGE).items():
        yield from ((f"users-of-{library}", f"watchword.{package}", library) for package in set(allowed) - users)


@pytest.fixture(scope="module")
def imports() -> ImportGraph:
    """Return the imports of every module, and as such the modules that it names by string."""
    configure()  # import-linter's own settings, without which its contracts cannot be checked
    graph = grimp.build_graph("watchword", include_external_packages=True, cache_dir=None)
    for importer, tree in modules():
        for name in named_modules(tree) & graph.modules - {importer}:
            graph.add_import(importer=importer, imported=name)
    return graph


def modules(word: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Yield every module of the package in which a word stands: dotted name and code."""
    for path in sorted(SOURCE.rglob("*.py")):
        if word in (text := path.read_text()):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(text)


def named_modules(tree: ast.Module) -> set[str]:
    """Return what could be names of modules in the strings of a module."""
    words = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {name for word in words for name in NAMED.findall(word)}


def is_kept(contract: str, graph: ImportGraph) -> bool:
    section = dict(CONFIGURATION[f"importlinter:contract:{contract}"])
    options = {key: value.split() if "\n" in value else value for key, value in section.items()}
    checked = TYPES[section["type"]](contract, SESSION, options)
    return checked.check(graph=graph, verbose=False).kept


@pytest.mark.parametrize("contract", [contract.id for contract in derive_contracts(PAGE, INDEPENDENT)])
def test_contract_is_kept_by_the_code_and_broken_by_each_forbidden_import(contract: str, imports: ImportGraph) -> None:
    assert is_kept(contract, imports)

    forbidden = [(importer, imported) for name, importer, imported in forbidden_imports() if name == contract]
    assert forbidden
    for importer, imported in forbidden:
        imports.add_import(importer=importer, imported=imported)
        assert not is_kept(contract, imports), f"{importer} imports {imported}"
        imports.remove_import(importer=importer, imported=imported)


@pytest.mark.parametrize(
    ("package", "imported"),
    [
        pytest.param("kube", "pki", id="kube to pki"),
        pytest.param("addons", "discovery", id="addons to discovery"),
        pytest.param("registration", "addons", id="registration to addons"),
        pytest.param("addons", "registration", id="addons to registration"),
        pytest.param("work", "registration", id="work to registration"),
        pytest.param("credentials", "registration", id="credentials to registration"),
        pytest.param("apiserver", "kube", id="apiserver to kube"),
    ],
)
def test_table_forbids_import(package: str, imported: str) -> None:
    assert imported not in allowed_imports(PAGE)[package]


def test_row_that_names_no_package_is_refused() -> None:
    page = "| `api` | kinds | nothing |\n| `kube` | client | all of the above |\n"

    with pytest.raises(ValueError, match="write packages of the table in backticks instead of 'all of the above'"):
        allowed_imports(page)


def test_row_with_exceptions_allows_the_other_packages() -> None:
    page = "| `api` | kinds | nothing |\n| `kube` | client | `api` |\n| `hub` | all | every package except `kube` |\n"

    assert allowed_imports(page) == {"api": set(), "kube": {"api"}, "hub": {"api"}}


def test_functions_are_named_by_string_in_catalogs_only() -> None:
    users = [
        name
        for name, tree in modules("LazyFunction")
        if any(
            isinstance(node, ast.ImportFrom)
            and node.module == LAZY_FUNCTION
            and any(alias.name == "LazyFunction" for alias in node.names)
            for node in ast.walk(tree)
        )
    ]

    assert users
    assert [name for name in users if not CATALOGS.fullmatch(name)] == []


def test_modules_named_by_string_count_as_imports(imports: ImportGraph) -> None:
    catalog = imports.find_modules_directly_imported_by("watchword.apiserver.kinds.catalog")

    assert {"watchword.apiserver.kinds.workloads"} <= catalog
