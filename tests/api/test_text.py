"""Text from a cluster moves no cursor, begins no line and turns no direction."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.api import yaml
from watchword.api.text import escape_text, is_safe_text
from watchword.cli.doctor import render_results
from watchword.cli.output import format_document, render_table
from watchword.health.finding import CheckResult, fail

HOSTILE = "a\x1b[2Jb\r\nc\u202ed\x9be\x7f\u2028f\u2066"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain Ünï ✓ 中文", "plain Ünï ✓ 中文", id="letters of any language stay"),
        pytest.param("\x1b[31m", "\\u001b[31m", id="a terminal sequence"),
        pytest.param("a\nb\r\tc", "a\\nb\\r\\tc", id="a line break"),
        pytest.param("\u202eevil\u2069", "\\u202eevil\\u2069", id="a change of direction"),
        pytest.param("\x9b1m\x7f", "\\u009b1m\\u007f", id="C1 and DEL"),
        pytest.param("\ud800", "\\ud800", id="half a character"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    assert escape_text(text) == expected


def test_what_is_kept_stays() -> None:
    assert escape_text("a\nb\x07", keep="\n") == "a\nb\\u0007"


def test_tables_findings_and_documents_hold_nothing_unsafe() -> None:
    table = render_table(("NAME",), [(HOSTILE,)])
    findings = render_results([CheckResult(HOSTILE, [fail("Hostile", HOSTILE, HOSTILE)])])

    assert is_safe_text(table, keep="\n")
    assert (len(table.splitlines()), len(findings.splitlines())) == (2, 2)
    for form in ("json", "yaml"):
        assert is_safe_text(format_document({HOSTILE: HOSTILE}, form), keep="\n")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_documents_say_the_same_as_before(text: str) -> None:
    assert json.loads(format_document([text], "json")) == [text]
    assert yaml.load(format_document({"k": text}, "yaml")) == {"k": text}
