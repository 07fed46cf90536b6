"""Measures the source: `python -m tools.sizes [FOLDER]` prints sizes and the modules that are too small to stand alone.

A function's length is its lines from `def` to its end, with its docstring. A fragment is a module of fewer than
`FRAGMENT_LINES` lines that exactly one other module imports: it belongs in its importer.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FILE_LINES = 500
FUNCTION_LINES = 60
FRAGMENT_LINES = 60
SHOWN = 10
STANDALONE = frozenset({"__init__", "__main__"})  # names that Python itself looks for
FRAGMENTS_ALLOWED: Mapping[str, str] = {
    "watchword.addons.rbac": "the rights that authors of add-ons import, on a page of the documentation",
    "watchword.cli.grpc_server": "every command is a module of its name, which `up` reads flags with, too",
    "watchword.registration.csr.driver": "every driver of clusters is a folder with this file, which the catalog names",
    "watchword.work.hub": "the hub's side of the pillar, which the process of the hub lists as it lists the others",
}
"""Dotted module: why it stands alone all the same."""


@dataclass(frozen=True)
class Function:
    """A function or method, and its length."""

    module: str
    name: str
    lines: int


@dataclass(frozen=True)
class Module:
    """One file of the source, read once."""

    name: str
    lines: int
    import_lines: int
    has_docstring: bool
    functions: tuple[Function, ...]
    imported: frozenset[str]  # dotted names, of modules and of what is imported from them


@dataclass(frozen=True)
class Sizes:
    """What was measured."""

    modules: tuple[Module, ...]
    importers: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def functions(self) -> list[Function]:
        """All functions, the longest first."""
        found = [function for module in self.modules for function in module.functions]
        return sorted(found, key=lambda function: -function.lines)

    @property
    def largest(self) -> list[Module]:
        """All modules, the largest first."""
        return sorted(self.modules, key=lambda module: -module.lines)

    def fragments(self) -> dict[str, str]:
        """Return each fragment and its importer."""
        small = [module for module in self.modules if module.lines < FRAGMENT_LINES]
        candidates = [module.name for module in small if module.name.rpartition(".")[2] not in STANDALONE]
        return {name: importer for name in candidates for importer in single(self.importers.get(name, frozenset()))}


def single(names: frozenset[str]) -> Iterable[str]:
    """Return the names if there is exactly one."""
    return names if len(names) == 1 else ()


def measure(source: Path = SOURCE) -> Sizes:
    """Read every module below a folder."""
    modules = tuple(read_module(path, module_name(path, source)) for path in sorted(source.rglob("*.py")))
    names = {module.name.removesuffix(".__init__"): module.name for module in modules}
    importers: dict[str, set[str]] = {}
    for module in modules:
        for imported in module.imported:
            target = names.get(imported)
            if target is not None and target != module.name:
                importers.setdefault(target, set()).add(module.name)
    return Sizes(modules, {name: frozenset(found) for name, found in importers.items()})


def module_name(path: Path, source: Path) -> str:
    """Return the dotted name of a file; that of a package ends with `__init__`."""
    return ".".join(path.relative_to(source).with_suffix("").parts)


def read_module(path: Path, name: str) -> Module:
    """Parse one file."""
    text = path.read_text()
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return Module(
        name=name,
        lines=len(text.splitlines()),
        import_lines=sum(line_count(node) for node in imports),
        has_docstring=ast.get_docstring(tree) is not None,
        functions=tuple(functions_of(tree, name)),
        imported=frozenset(target for node in imports for target in imported_names(node)),
    )


def functions_of(tree: ast.AST, module: str, outer: str = "") -> Iterator[Function]:
    """Yield the functions of a module, inner ones as `outer.inner`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # holds no function; 9 of 10 nodes
        name = outer
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{outer}.{node.name}".removeprefix(".")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(module, name, line_count(node))
        yield from functions_of(node, module, name)


def line_count(node: ast.stmt) -> int:
    """Return the lines of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield what an import statement names, the modules and their members alike."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def report(sizes: Sizes) -> Iterator[str]:
    """Yield the lines to print."""
    lengths = [function.lines for function in sizes.functions]
    yield f"files: {len(sizes.modules)}"
    yield f"lines: {sum(module.lines for module in sizes.modules)}"
    yield f"lines of import statements: {sum(module.import_lines for module in sizes.modules)}"
    yield f"functions: {len(lengths)}, median {median(lengths):g} lines, p95 {quantiles(lengths, n=20)[-1]:g}"
    yield f"largest files (limit {FILE_LINES}):"
    yield from (f"  {module.lines:4} {module.name}" for module in sizes.largest[:SHOWN])
    yield f"longest functions (limit {FUNCTION_LINES}):"
    yield from (f"  {found.lines:4} {found.module}:{found.name}" for found in sizes.functions[:SHOWN])
    fragments = sizes.fragments()
    yield f"modules of fewer than {FRAGMENT_LINES} lines with one importer: {len(fragments)}"
    yield from (f"  {name} <- {importer}" for name, importer in fragments.items())


def main() -> int:
    """Print the report."""
    parser = argparse.ArgumentParser(description="Measure the source.")
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCE)
    print(*report(measure(parser.parse_args().folder)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
