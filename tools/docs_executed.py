"""The blocks of commands in pages for readers: which of them a test executes, and why others are not."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?:^ *<!-- (?P<mark>(?:run|not run)[^>]*?) -->\n)?^ *```(?:console|sh)\n(?P<text>.*?)^ *```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CommandBlock:
    """A fenced block of commands and what the page's source says about its execution."""

    page: Path
    line: int
    mark: str
    text: str

    @property
    def script(self) -> str:
        """The commands: lines after `$ `, and indented lines, which continue them; others are output."""
        lines = textwrap.dedent(self.text).splitlines()
        return "\n".join(line.removeprefix("$ ") for line in lines if line.startswith(("$ ", "  ")))

    @property
    def is_executed(self) -> bool:
        return self.mark.startswith("run")

    @property
    def reason(self) -> str:
        """Why it is not executed; empty when it is, or when the page does not say."""
        return self.mark.removeprefix("not run").lstrip(": ") if self.mark.startswith("not run") else ""


def command_pages(root: Path) -> list[Path]:
    """Return README, tutorial and how-tos."""
    return [root / "README.md", root / "docs" / "tutorial.md", *sorted((root / "docs" / "howto").glob("*.md"))]


def read_command_blocks(pages: Iterable[Path]) -> list[CommandBlock]:
    """Return every block of commands; the comment before it, in the page's source, says how it is executed."""
    return [
        CommandBlock(page, text.count("\n", 0, match.start("text")), match["mark"] or "", match["text"])
        for page in pages
        for text in (page.read_text(),)
        for match in FENCE.finditer(text)
    ]


def describe_execution(blocks: list[CommandBlock], root: Path) -> str:
    """Return how many blocks there are and are executed, and the reasons of the others."""
    executed = [block for block in blocks if block.is_executed]
    reasons = Counter(block.reason for block in blocks if block.reason)
    silent = [block for block in blocks if not block.mark]
    lines = [f"blocks {len(blocks)}, executed {len(executed)}, skipped {sum(reasons.values())}"]
    lines += [f"  {count:3} skipped: {reason}" for reason, count in reasons.most_common()]
    lines += [
        f"{block.page.relative_to(root)}:{block.line}: says neither `run` nor `not run: REASON`" for block in silent
    ]
    return "\n".join(lines)
