"""The limits of the style page: sizes of files, functions and classes, and each module says why it exists."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from statistics import median, quantiles

from tools.sizes import (
    DEPTH,
    FILE_LINES,
    FRAGMENTS_ALLOWED,
    FUNCTION_LINES,
    MANY_METHODS_ALLOWED,
    SOURCE,
    Sizes,
    measure,
    report,
)

ROOT = Path(__file__).parents[2]


@cache
def whole() -> Sizes:
    """Measure the product while a test runs: every worker imports this module."""
    return measure(SOURCE)


def unexplained_fragments(sizes: Sizes, allowed: dict[str, str]) -> list[str]:
    """Return fragments without a reason, and reasons without a fragment."""
    reasons = {name for name, reason in allowed.items() if reason.strip()}
    return sorted(sizes.fragments().keys() ^ reasons)


def write(folder: Path, **files: str) -> Sizes:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return measure(folder)


def test_no_file_is_too_long() -> None:
    assert [module.name for module in whole().largest if module.lines > FILE_LINES] == []


def test_no_function_is_too_long() -> None:
    found = [f"{function.module}:{function.name}" for function in whole().functions if function.lines > FUNCTION_LINES]

    assert found == []


def test_most_functions_are_short() -> None:
    lengths = [function.lines for function in whole().functions]

    assert median(lengths) <= 8
    assert quantiles(lengths, n=20)[-1] <= 35


def test_no_function_is_nested_too_deeply() -> None:
    assert [f"{each.module}:{each.name}" for each in whole().functions if each.depth > DEPTH] == []


def test_class_with_many_methods_has_a_reason() -> None:
    assert sorted(whole().wide_classes()) == sorted(MANY_METHODS_ALLOWED)


def test_source_as_a_whole_keeps_its_limits() -> None:
    modules = whole().modules

    assert len(modules) <= 620
    assert sum(module.lines for module in modules) <= 80_000
    assert sum(module.import_lines for module in modules) <= 8_000


def test_every_module_has_a_docstring() -> None:
    assert [module.name for module in whole().modules if not module.has_docstring] == []


def test_ruff_limits_the_number_of_parameters() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]

    assert lint["pylint"]["max-args"] <= 6
    assert not {"PLR0913", "PLR0917"} & set(lint["ignore"])


def test_small_modules_with_one_importer_are_part_of_it() -> None:
    assert unexplained_fragments(whole(), dict(FRAGMENTS_ALLOWED)) == []


def test_fragment_is_found_unless_a_reason_allows_it(tmp_path: Path) -> None:
    sizes = write(
        tmp_path, part="'''A part.'''\n", shared="", one="import shared\nfrom part import x\n", two="import shared\n"
    )

    assert sizes.fragments() == {"part": "one"}
    assert unexplained_fragments(sizes, {}) == ["part"]
    assert unexplained_fragments(sizes, {"part": " "}) == ["part"]
    assert unexplained_fragments(sizes, {"part": "an entry point of users"}) == []
    assert unexplained_fragments(sizes, {"part": "an entry point of users", "gone": "none"}) == ["gone"]


def test_report_names_the_longest_function_and_the_lines_of_imports(tmp_path: Path) -> None:
    source = "from os import (\n    path,\n)\n\n\nclass A:\n    def b(self):\n        def c():\n            pass\n"
    sizes = write(tmp_path, alone=source)

    printed = list(report(sizes))

    assert "lines of import statements: 3" in printed
    assert [(found.name, found.lines) for found in sizes.functions] == [("A.b", 3), ("A.b.c", 2)]
    assert printed[-1] == "modules of fewer than 60 lines with one importer: 0"


def test_depth_counts_branches_and_loops_but_no_elif(tmp_path: Path) -> None:
    source = "def a(x):\n    if x:\n        pass\n    elif x:\n        for _ in x:\n            pass\n"

    assert [function.depth for function in write(tmp_path, alone=source).functions] == [2]


def test_class_and_protocol_with_many_methods_are_found(tmp_path: Path) -> None:
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(5))
    sizes = write(tmp_path, alone=f"class A:\n{methods * 2}\nclass B(Protocol):\n{methods}\nclass C:\n{methods * 3}")

    assert sizes.wide_classes() == ["alone:B", "alone:C"]
