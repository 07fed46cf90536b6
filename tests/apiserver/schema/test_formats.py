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
        ("email", "Ann <ann@example.com>"),
        ("hexcolor", "#00ff7F"),
        ("hostname", "grün.example.com"),
        ("k8s-long-name", "a.b-c"),
        ("mac", "00:00:5e:00:53:01"),
        ("uuid4", "F47AC10B-58CC-4372-8567-0E02B2C3D479"),
        ("a format that is not enforced", "anything"),
    ],
)
def test_formatted_text_is_accepted(name: str, text: str) -> None:
    assert is_formatted(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("duration", "1", id="no unit"),
        pytest.param("hexcolor", "#fff\n", id="trailing newline"),
        pytest.param("duration", "1s" * 60 + "!", id="many ways to read the parts of a duration"),
        pytest.param("duration", "1" * 1_000_000, id="many ways to read a number"),
        pytest.param("email", "a" * 1_000_000, id="endless address"),
        pytest.param("k8s-short-name", "a-", id="trailing dash"),
        pytest.param("uuid4", "f47ac10b-58cc-1372-8567-0e02b2c3d479", id="another version"),
    ],
)
def test_text_of_another_form_is_refused(name: str, text: str) -> None:
    assert not is_formatted(text, name)
