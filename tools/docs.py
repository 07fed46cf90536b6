"""Writes the pages that are rendered from code, and checks that every relative link leads to a file."""

from __future__ import annotations

import re
import sys
from functools import cache
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
FENCE = re.compile(r"```.*?```", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
ROOT = Path(__file__).parents[1]
MAX_WORDS = 60_000


def main() -> None:
    """Write what differs; print what is broken, and exit non-zero when anything is.

    With `--executed`: print which blocks of commands are run by a test, and why the others are not. With `--words`:
    print how many words each page has.
    """
    if sys.argv[1:] == ["--executed"]:
        print("\n".join(report(ROOT)))
        return
    if sys.argv[1:] == ["--words"]:
        counts = count_words(ROOT)
        print("\n".join(f"{count:6} {page.relative_to(ROOT)}" for page, count in counts.items()))
        print(f"{sum(counts.values()):6} in all, {MAX_WORDS} at most")
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


def count_words(root: Path) -> dict[Path, int]:
    """Return the words of README and documentation by page, as `wc -w` counts them."""
    return {
        page: len(page.read_text().split()) for page in (root / "README.md", *sorted((root / "docs").rglob("*.md")))
    }


def broken_links(page: Path) -> list[str]:
    """Return the targets of relative links to files or headings that do not exist."""
    targets = [match["target"] for match in LINK.finditer(CODE.sub("", page.read_text()))]
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    return [target for target in local if not _leads_somewhere(page, target)]


def _leads_somewhere(page: Path, target: str) -> bool:
    name, _, heading = target.partition("#")
    file = page.parent / name if name else page
    return file.exists() and (not heading or file.suffix != ".md" or heading in _anchors(file))


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors that the site and GitHub give the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    main()
