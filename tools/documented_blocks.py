"""Reads the blocks of commands in the documentation, and how a test runs them or why it does not.

Comments in the source of a page say so, before a block or at the head of the page:

- `<!-- run: WORDS -->` and `<!-- not run: REASON -->`; a block without either runs in the reader's present terminal;
- `<!-- on a node: WORDS -->`: as `run`, by `make test-node` on a real node;
- `<!-- fleet: OPTIONS -->` starts `watchword up OPTIONS` for the page;
- `<!-- planes: NAMES -->` starts an embedded control plane with a process node for each context that it names;
- `<!-- where PLACEHOLDER is: SHELL WORDS -->` says what stands for a placeholder in the blocks after it;
- `<!-- before: COMMANDS -->` brings about what the next block takes as given.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PART = re.compile(
    r"^ *<!-- (?P<word>fleet|planes|where|before|run|not run|on a node)"
    r"(?:: ?|(?= -->)| (?P<placeholder>\S+) is: )(?P<text>.*?) ?-->$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)\n(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
SHELLS = ("console", "sh", "bash")
PAGES = (
    "README.md",
    "docs/tutorial.md",
    "docs/troubleshooting*.md",
    "docs/howto/*.md",
    "docs/*.md",
    "deploy/README.md",
)


@dataclass(frozen=True)
class Block:
    """Commands of a page in order, the output that it shows, and how they are run."""

    line: int
    mark: str
    commands: tuple[str, ...]
    answers: tuple[str, ...] = ()
    left_out: str = ""  # why it is not run
    before: str = ""  # commands that the page does not show
    placeholders: tuple[tuple[str, str], ...] = ()  # shell words for what the page writes
    needs_node: bool = False


@dataclass(frozen=True)
class Page:
    """A page with its blocks, and what the test provides before it follows them."""

    path: Path
    fleet: str | None  # options of `watchword up`; None: no fleet
    planes: tuple[str, ...]  # contexts, the first one the current
    blocks: tuple[Block, ...]


def read_pages(root: Path) -> list[Page]:
    """Return the pages that have blocks of commands."""
    paths = dict.fromkeys(path for pattern in PAGES for path in sorted(root.glob(pattern)))
    return [page for page in map(read_page, paths) if page.blocks]


def read_page(path: Path) -> Page:
    text = path.read_text()
    said = {"fleet": "", "planes": "", "before": ""}
    placeholders: dict[str, str] = {}
    how = ("run", "")
    blocks: list[Block] = []
    for part in PART.finditer(text):
        if part["word"] in ("run", "not run", "on a node"):
            how = (part["word"], part["text"])
        elif part["word"] == "where":
            placeholders[part["placeholder"]] = part["text"]
        elif part["word"]:
            said[part["word"]] = part["text"]
        elif part["language"] in SHELLS:
            lines = [row.removeprefix(part["indent"]) for row in part["body"].splitlines()]
            commands, answers = _separate(lines)
            block = Block(
                line=text.count("\n", 0, part.start()) + 1,
                mark=how[1] if how[0] != "not run" else "",
                commands=tuple(commands),
                answers=tuple(row for row in answers if row.strip() not in ("", "…")),
                left_out=how[1] if how[0] == "not run" else "",
                before=said["before"],
                placeholders=tuple(placeholders.items()),
                needs_node=how[0] == "on a node",
            )
            blocks.append(block)
            how, said["before"] = ("run", ""), ""
    fleet = said["fleet"] if "<!-- fleet" in text else None
    return Page(path, fleet, tuple(said["planes"].split()), tuple(blocks))


def _separate(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return commands, with the lines on which they continue, and the output; without prompts all is one command."""
    if not any(row.startswith("$ ") for row in lines):
        return ["\n".join(lines)], []
    commands: list[str] = []
    answers: list[str] = []
    is_open = False
    for row in lines:
        if is_open:
            commands[-1] += f"\n{row}"
        elif row.startswith("$ "):
            commands.append(row.removeprefix("$ "))
        else:
            answers.append(row)
            continue
        is_open = not _is_complete(commands[-1])
    return commands, answers


def _is_complete(command: str) -> bool:
    if command.endswith("\\"):
        return False
    checked = subprocess.run(["/bin/bash", "-n", "-c", command], capture_output=True, check=False)
    return checked.returncode == 0 and b"here-document" not in checked.stderr


def report(root: Path) -> Iterator[str]:
    """Yield how many blocks each page has, how many a test runs, and why it does not run the others."""
    pages = read_pages(root)
    for page in pages:
        reasons = [f"  line {block.line} is not: {block.left_out}" for block in page.blocks if block.left_out]
        executed = len(page.blocks) - len(reasons)
        yield f"{page.path.relative_to(root)}: {len(page.blocks)} blocks, {executed} executed"
        yield from reasons
    blocks = [block for page in pages for block in page.blocks]
    executed = sum(not block.left_out for block in blocks)
    left_out = len(blocks) - executed
    on_nodes = sum(block.needs_node for block in blocks)
    yield (
        f"{len(pages)} pages, {len(blocks)} blocks, {executed} executed, {on_nodes} of them by make test-node; "
        f"{left_out} not, with a reason each"
    )
