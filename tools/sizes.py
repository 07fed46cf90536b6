"""Measures the source: `python -m tools.sizes [FOLDER]` prints sizes and the modules that are too small to stand alone.

A function's length is its lines from `def` to its end, with its docstring; its depth is that of its nested branches and
loops. The methods of a class are its public ones, properties included. A fragment is a module of fewer than
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
DEPTH = 3
METHODS = 10
PROTOCOL_METHODS = 4
SHOWN = 10
STANDALONE = frozenset({"__init__", "__main__"})  # names that Python itself looks for
FRAGMENTS_ALLOWED: Mapping[str, str] = {
    "watchword.addons.rbac": "the rights that authors of add-ons import, on a page of the documentation",
    "watchword.cli.grpc_server": "every command is a module of its name, which `up` reads flags with, too",
    "watchword.registration.csr.driver": "every driver of clusters is a folder with this file, which the catalog names",
    "watchword.work.hub": "the hub's side of the pillar, which the process of the hub lists as it lists the others",
}
"""Dotted module: why it stands alone all the same."""
MANY_METHODS_ALLOWED: Mapping[str, str] = {
    "watchword.admin.service_accounts:ServiceAccountAdmin": "one for each command about accounts",
    "watchword.apiserver.serving.model:Registry": "the verbs",
    "watchword.apiserver.store.log:RevisionLog": "what the one writing thread does with a file",
    "watchword.apiserver.store.model:Store": "the store",
    "watchword.cel.syntax:_Parser": "one for each rule of the grammar",
    "watchword.health.hub_observer:HubObserver": "one for each kind that a view reads",
    "watchword.http.request_parser:RequestParser": "seven callbacks of the parser library",
    "watchword.kube.client:Client": "the verbs",
    "watchword.registration.aws_irsa.driver:AwsIrsaDriver": "one or two for each ability of a driver",
    "watchword.registration.catalog:Catalog": "one for each question about drivers, so that no caller names one",
    "watchword.registration.catalog:HubDrivers": "the same on the hub",
    "watchword.runtime.cache:Cache": "reading, indexing and registering for every kind",
    "watchword.runtime.ensure:ObjectWriter": "the verbs of a client that write",
    "watchword.runtime.informer_store:InformerStore": "reading, indexing and updating of one kind",
    "watchword.runtime.work_queue:WorkQueue": "the states of a key",
    "watchword.testing.plane:Backend": "what differs between control planes",
    "watchword.testing.plane:Plane": "everything that a test asks of a control plane",
}
"""Class: why it has more methods than others."""


@dataclass(frozen=True)
class Function:
    """A function or method, and its length."""

    module: str
    name: str
    lines: int
    depth: int = 0


@dataclass(frozen=True)
class Class:
    """A class or protocol, as `module:name`, and its number of public methods."""

    name: str
    methods: int
    is_protocol: bool


@dataclass(frozen=True)
class Module:
    """One file of the source, read once."""

    name: str
    lines: int
    import_lines: int
    has_docstring: bool
    functions: tuple[Function, ...]
    classes: tuple[Class, ...]
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

    def wide_classes(self) -> list[str]:
        """Return the classes with more methods than a class, or a protocol, should have."""
        classes = (found for module in self.modules for found in module.classes)
        return [each.name for each in classes if each.methods > (PROTOCOL_METHODS if each.is_protocol else METHODS)]

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
        classes=tuple(classes_of(tree, name)),
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
            yield Function(module, name, line_count(node), depth_of(node))
        yield from functions_of(node, module, name)


def depth_of(node: ast.AST) -> int:
    """Return how deeply branches and loops are nested in a function, without those of inner functions."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        is_block = isinstance(child, ast.If | ast.For | ast.AsyncFor | ast.While | ast.Match) and not is_elif
        deepest = max(deepest, depth_of(child) + is_block)
    return deepest


def classes_of(tree: ast.Module, module: str) -> Iterator[Class]:
    """Yield the classes of a module, without inner ones."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = [each for each in methods if not each.name.startswith("_")]
            is_protocol = any(ast.unparse(base) == "Protocol" for base in node.bases)
            yield Class(f"{module}:{node.name}", len(public), is_protocol)


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
