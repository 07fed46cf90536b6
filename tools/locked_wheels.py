"""Selects from the lock what the installed command needs, with the hashes of the lock."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)==(?:.*\\\n)*.*$", re.MULTILINE)


def canonical(name: str) -> str:
    """Return a package's name in the form that every index uses."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_names(extras: Iterable[str] = ()) -> set[str]:
    """Return the dependencies that pyproject.toml declares, and theirs as the installed packages declare them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    return set(_dependencies(own, ("",), set()))


def _dependencies(declared: Iterable[str], extras: Iterable[str], seen: set[str]) -> Iterator[str]:
    for text in declared:
        wanted = Requirement(text)
        name = canonical(wanted.name)
        is_wanted = wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras)
        if is_wanted and name not in seen:
            seen.add(name)
            yield name
            yield from _dependencies(distribution(name).requires or (), ("", *wanted.extras), seen)


def locked_requirements(lock: str, names: Iterable[str]) -> str:
    """Return the blocks of the lock for these packages; `ValueError` when the lock lacks one."""
    blocks = {canonical(match["name"]): match[0] for match in BLOCK.finditer(lock)}
    missing = sorted(set(names) - set(blocks))
    if missing:
        raise ValueError(f"requirements.lock has no {', '.join(missing)}: run `make lock`")
    return "".join(f"{blocks[name]}\n" for name in sorted(names))
