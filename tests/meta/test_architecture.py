"""docs/architecture.md and the code agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.contracts import allowed_imports

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "watchword"
MAXIMUM_LINES = 500


def _packages() -> set[str]:
    return {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}


def test_every_package_has_a_row_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()

    assert set(allowed_imports(text)) == _packages()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=;\s]", dependency)[0] for dependency in project["dependencies"]}
    text = (ROOT / "docs" / "adr" / "0004-libraries.md").read_text()

    assert names == set(re.findall(r"^\| ([\w-]+) \| .+ \| .+ \|$", text.split("Refused")[0], re.MULTILINE)) - {
        "library"
    }


def test_no_module_is_longer_than_the_limit() -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}

    assert {str(path): size for path, size in sizes.items() if size > MAXIMUM_LINES} == {}
