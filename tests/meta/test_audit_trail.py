"""The guide lists every decision that the program tells, and a test proves each of them."""

from __future__ import annotations

import re
from pathlib import Path

from tools.reasons import read_sources
from watchword.credentials.certificates.requests import APPROVED_REASON

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| [^|]+ \| (`\w+`(?:, `\w+`)*) \|$", re.MULTILINE)


def documented_reasons() -> set[str]:
    section = (
        (ROOT / "docs" / "howto" / "run-a-hub.md").read_text().partition("## Audit trail")[2].partition("\n## ")[0]
    )
    return {reason for row in ROW.findall(section) for reason in re.findall(r"\w+", row)}


def test_guide_lists_every_reason_that_the_program_tells() -> None:
    told = {event.reason for event in read_sources(ROOT / "src" / "watchword").events()}

    assert documented_reasons() == told


def test_every_decision_is_asserted_by_a_test() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*.py") if "meta" not in path.parts]
    text = "\n".join(path.read_text() for path in tests).replace("APPROVED_REASON", APPROVED_REASON)

    assert {reason for reason in documented_reasons() if reason not in text} == set()
