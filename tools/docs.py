"""Checks the documentation: every relative link leads to a file of this repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def main() -> None:
    """Print what is broken; exit non-zero when anything is."""
    root = Path(__file__).parents[1]
    broken = [f"{page.relative_to(root)}: {target}" for page in pages(root) for target in broken_links(page)]
    sys.exit("\n".join(["links that lead nowhere:", *broken]) if broken else None)


def pages(root: Path) -> list[Path]:
    """Return every page of documentation."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "bench").rglob("*.md")])


def broken_links(page: Path) -> list[str]:
    """Return the targets of relative links that do not exist."""
    targets = [match["target"] for match in LINK.finditer(CODE.sub("", page.read_text()))]
    local = [target for target in targets if "://" not in target and not target.startswith(("#", "mailto:"))]
    return [target for target in local if not (page.parent / target.partition("#")[0]).exists()]


if __name__ == "__main__":
    main()
