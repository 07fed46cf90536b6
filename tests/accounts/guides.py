"""The commands and examples of the guides of managed service accounts, as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
GUIDE, CONSUMERS = "managed-service-accounts.md", "managed-service-accounts-consumers.md"


def example(page: str, language: str) -> str:
    """Return the first example in a language."""
    found = re.search(rf"```{language}\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def command(page: str, verb: str, **names: str) -> list[str]:
    """Return the arguments of the first command that begins so; names of the guide are replaced by those of a test."""
    lines = re.findall(r"^\$ watchword (.*?)(?:\s{2,}#.*)?$", (HOWTO / page).read_text(), re.MULTILINE)
    line = next(line for line in lines if line.startswith(verb))
    return [names.get(part.replace("-", "_").replace(".", "_"), part) for part in shlex.split(line)]
