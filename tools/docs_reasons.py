"""Renders what the dashboard says about each reason: from the sources, and from what troubleshooting advises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.reasons import Said, read_sources

PAGES = ("troubleshooting.md", "troubleshooting-addons.md")
ROW = re.compile(r"^\| (?P<reasons>`[^|]+`[^|]*) \| (?P<advice>.+) \|$")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
COMMAND = re.compile(r"watchword [a-z]|kubectl [a-z]+ [a-z]")
GENERAL = {  # by the package that sets the reason: where to look when no page says more
    "registration": "watchword clusters show NAME",
    "credentials": "watchword clusters show NAME",
    "work": "watchword clusters show NAME",
    "addons": "watchword addon list",
    "accounts": "watchword serviceaccount list",
    "pullsecrets": "watchword pull-secrets list",
}
CHECK = "watchword doctor"
EVENT_TYPES = ("Normal", "Warning")


def render_reasons(root: Path) -> str:
    """Return the file: a row for each condition type or event and each of its reasons."""
    sources = read_sources(root / "src" / "watchword")
    advice: dict[str, dict[str, None]] = {}
    for page in PAGES:
        for reason, text in read_advice((root / "docs" / page).read_text()):
            advice.setdefault(reason, {})[text] = None
    said = [*sources.conditions(), *(event for event in sources.events() if event.reason)]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for each in sorted(said, key=lambda each: (each.reason.lower(), not each.message)):
        row = describe(each, "; ".join(advice.get(each.reason, ())))
        known = rows.setdefault((row["reason"], row["subject"]), row)
        if known is not row:  # several controllers set it
            for field, between in (("module", ", "), ("message", " / ")):
                texts = dict.fromkeys([*known[field].split(between), row[field]])
                known[field] = between.join(filter(None, texts))
    return json.dumps([*rows.values()], indent=1, ensure_ascii=False) + "\n"


def read_advice(page: str) -> Iterator[tuple[str, str]]:
    """Yield each reason that a table of the page names, with what to do about it."""
    for line in page.splitlines():
        row = ROW.match(line)
        if row is not None:
            yield from ((reason, row["advice"].rpartition(" | ")[2]) for reason in CODE.findall(row["reasons"]))


def describe(said: Said, advice: str) -> dict[str, Any]:
    """Return one row as the dashboard shows it; the advice is split into text and code."""
    parts = split_code(LINK.sub(r"\1", advice)) or split_code(said.message)
    needs_attention = said.tone not in ("True", "Normal") or bool(advice)
    return {
        "reason": said.reason,
        "subject": said.subject or ("event" if said.tone in EVENT_TYPES else "several conditions"),
        "tone": said.tone,
        "message": said.message,
        "module": said.module.removeprefix("watchword."),
        "advice": parts,
        "command": choose_command(said, parts) if needs_attention else "",
    }


def split_code(text: str) -> list[dict[str, str]]:
    """Return a text of Markdown as plain text and code, in order."""
    parts = [{"code" if number % 2 else "text": part} for number, part in enumerate(CODE.split(text))]
    return [part for part in parts if any(part.values())]


def choose_command(said: Said, parts: list[dict[str, str]]) -> str:
    """Return the first command of the advice; else the one that shows most about what set the reason."""
    named = [part["code"] for part in parts if COMMAND.match(part.get("code", ""))]
    package = said.module.removeprefix("watchword.").partition(".")[0]
    return named[0].replace("…", "NAME") if named else GENERAL.get(package, CHECK)
