"""Derives the import contracts in `.importlinter` from the tables in docs/architecture.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT_PACKAGE = "watchword"
PACKAGE_ROW = re.compile(r"^\| `(?P<package>\w+)` \| [^|]+ \| (?P<imports>[^|]+) \|$", re.MULTILINE)
LIBRARY_ROW = re.compile(r"^\| `(?P<library>\w+)` \| (?P<packages>`\w+`(?:, `\w+`)*) \|$", re.MULTILINE)
EXCEPT = re.compile(r"^every package except (?P<rest>.+)$")
NAME = re.compile(r"`(\w+)`")
NOTHING = "nothing"
SIDES = ("hub", "agent")
DRIVERS = {
    "registration": ("registration.aws_irsa", "registration.csr", "registration.grpc"),
    "addons": ("addons.certificate", "addons.token"),
}
"""The folders that hold one driver each, by pillar; a test compares them with the catalogs."""
HEADER = """\
# Rendered by `python -m tools.docs` from the tables in docs/architecture.md: change the tables, not this file.
[importlinter]
root_package = watchword
include_external_packages = True
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One import-linter contract; `options` are written in its own syntax."""

    id: str
    type: str
    options: Mapping[str, tuple[str, ...]]

    def render(self) -> str:
        """Return the contract's section of `.importlinter`."""
        lines = [f"[importlinter:contract:{self.id}]", f"name = {self.id}", f"type = {self.type}"]
        for option, values in self.options.items():
            lines += [f"{option} =", *(f"    {value}" for value in values)]
        if self.type == "forbidden":
            lines.append("allow_indirect_imports = True")
        return "\n".join(lines) + "\n"


def render_contracts(root: Path) -> str:
    """Return what `.importlinter` has to contain."""
    page = (root / "docs" / "architecture.md").read_text()
    return "\n".join([HEADER, *(contract.render() for contract in derive_contracts(page, independent_folders(root)))])


def independent_folders(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the folders of a pillar that never import each other: its two sides, and its drivers."""
    source = root / "src" / ROOT_PACKAGE
    sides = {
        f"{pillar.name}-hub-and-agent": tuple(f"{pillar.name}.{side}" for side in SIDES)
        for pillar in sorted(source.iterdir())
        if all((pillar / side / "__init__.py").is_file() for side in SIDES)
    }
    return {**sides, **{f"drivers-of-{pillar}": drivers for pillar, drivers in DRIVERS.items()}}


def derive_contracts(page: str, independent: Mapping[str, tuple[str, ...]]) -> list[Contract]:
    """Return one contract per package and per library, and one for each set of folders that are kept apart."""
    allowed = allowed_imports(page)
    packages = [_package_contract(package, set(allowed) - {package} - allowed[package]) for package in allowed]
    return [
        *(contract for contract in packages if contract is not None),
        *(
            Contract(id=name, type="independence", options={"modules": tuple(map(_qualified, folders))})
            for name, folders in independent.items()
        ),
        *(_library_contract(library, set(allowed) - users) for library, users in library_users(page).items()),
    ]


def allowed_imports(page: str) -> dict[str, set[str]]:
    """Return which packages each package of the table may import."""
    rows = {match["package"]: match["imports"] for match in PACKAGE_ROW.finditer(page)}
    return {package: _parse_imports(imports, set(rows)) - {package} for package, imports in rows.items()}


def library_users(page: str) -> dict[str, set[str]]:
    """Return which packages may import each library that the page restricts."""
    return {match["library"]: set(NAME.findall(match["packages"])) for match in LIBRARY_ROW.finditer(page)}


def _parse_imports(text: str, packages: set[str]) -> set[str]:
    text = text.strip()
    if text == NOTHING:
        return set()
    exception = EXCEPT.match(text)
    named = set(NAME.findall(exception["rest"] if exception else text))
    if not named or named - packages:
        raise ValueError(f"docs/architecture.md: write packages of the table in backticks instead of {text!r}")
    return packages - named if exception else named


def _package_contract(package: str, forbidden: set[str]) -> Contract | None:
    if not forbidden:
        return None
    options = {"source_modules": (_qualified(package),), "forbidden_modules": tuple(map(_qualified, sorted(forbidden)))}
    return Contract(id=f"imports-of-{package}", type="forbidden", options=options)


def _library_contract(library: str, sources: set[str]) -> Contract:
    options = {"source_modules": tuple(map(_qualified, sorted(sources))), "forbidden_modules": (library,)}
    return Contract(id=f"users-of-{library}", type="forbidden", options=options)


def _qualified(package: str) -> str:
    return f"{ROOT_PACKAGE}.{package}"
