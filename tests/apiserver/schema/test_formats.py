"""Formats of strings are checked as kube-apiserver does, whatever a client writes."""

from __future__ import annotations

import pytest

from watchword.apiserver.kinds.schema_validation import is_formatted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("duration", "1h30m"),
        ("duration", "-1.5h"),
        ("duration", "2 days 3 hours"),
        ("hostname", "grün.example.com"),
        ("a format that is not enforced", "anything"),
    ],
)
def test_formatted_text_is_accepted(name: str, text: str) -> None:
    assert is_formatted(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("duration", "1", id="no unit"),
        pytest.param("duration", "1s" * 60 + "!", id="many ways to read the parts of a duration"),
        pytest.param("duration", "1" * 1_000_000, id="many ways to read a number"),
    ],
)
def test_text_of_another_form_is_refused(name: str, text: str) -> None:
    assert not is_formatted(text, name)
