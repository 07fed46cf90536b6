"""Libraries whose patterns are compiled late find them when they need them."""

from __future__ import annotations

import re

import pytest

from watchword.api.lazy_patterns import lazy_patterns


def test_pattern_that_is_compiled_late_matches() -> None:
    with lazy_patterns():
        pattern = re.compile(r"(?P<word>\w+) # a comment", re.VERBOSE)

    found = pattern.match("hello world")

    assert found is not None
    assert found["word"] == "hello"


def test_pattern_that_is_wrong_is_refused_when_it_is_used() -> None:
    with lazy_patterns():
        pattern = re.compile("(")

    with pytest.raises(re.error):
        pattern.match("")


def test_patterns_are_compiled_at_once_afterwards() -> None:
    with pytest.raises(ZeroDivisionError), lazy_patterns():
        raise ZeroDivisionError

    assert isinstance(re.compile("x"), re.Pattern)
