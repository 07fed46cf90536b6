"""Writes the pages that are rendered from code, and checks that every relative link leads to a file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.contracts import render_contracts
from tools.docs_api import render_api
from tools.docs_cli import render_cli
from tools.docs_conditions import render_conditions
from tools.docs_metrics import render_metrics
from tools.docs_reasons import render_reasons
from tools.docs_rights import render_rights
from tools.documented_blocks import report

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write what differs; print what is broken, and exit non-zero when anything is.

    With `--executed`: print which blocks of commands are run by a test, and why the others are not.
    """
    if sys.argv[1:] == ["--executed"]:
        print("\n".join(report(ROOT)))
        return
    for path, text in rendered(ROOT).items():
        if not path.is_file() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    broken = [f"{page.relative_to(ROOT)}: {target}" for page in pages(ROOT) for target in broken_links(page)]
    sys.exit("\n".join(["links that lead nowhere:", *broken]) if broken else None)


def rendered(root: Path) -> dict[Path, str]:
    """Return the text of every file that is rendered from code or from another page."""
    reference = root / "docs" / "reference"
    return {
        root / ".importlinter": render_contracts(root),
        reference / "cli.md": render_cli(),
        reference / "api.md": render_api(),
        reference / "rights.md": render_rights(),
        reference / "metrics.md": render_metrics(),
        reference / "conditions.md": render_conditions(root / "src" / "watchword"),
        root / "src" / "watchword" / "dashboard" / "assets" / "reasons.json": render_reasons(root),
    }


def pages(root: Path) -> list[Path]:
    """Return every page of documentation."""
    folders = ("docs", "bench", "deploy")
    return sorted([*root.glob("*.md"), *(page for folder in folders for page in (root / folder).rglob("*.md"))])


def broken_links(page: Path) -> list[str]:
    """Return the targets of relative links that do not exist."""
    targets = [match["target"] for match in LINK.finditer(CODE.sub("", page.read_text()))]
    local = [target for target in targets if "://" not in target and not target.startswith(("#", "mailto:"))]
    return [target for target in local if not (page.parent / target.partition("#")[0]).exists()]


if __name__ == "__main__":
    main()
