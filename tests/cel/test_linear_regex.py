"""The linear matcher agrees with Python's on everything that both finish."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.cel.re2_patterns import LinearRegex, compile_pattern, is_backtracking_safe

PIECES = st.sampled_from(
    ["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", r"\s", "(a|b)", "(ab)", "^", "$", r"\b", "(?:a|)"]
)
REPEATS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "*?", "{2,}"])
patterns = st.lists(st.tuples(PIECES, REPEATS), max_size=5).map(
    lambda parts: "".join(piece + ("" if piece in ("^", "$", r"\b") else repeat) for piece, repeat in parts)
)


@settings(max_examples=200)
@given(st.sampled_from(["", "(?i)"]), patterns, st.text("abAB1 \n_", max_size=12))
def test_both_matchers_agree(flags: str, pattern: str, text: str) -> None:
    translated = flags + pattern.replace("$", r"\Z")

    assert LinearRegex(translated).search(text) is bool(re.search(translated, text, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "harmless"),
    [
        pytest.param("^[a-z]+$", True, id="one repetition"),
        pytest.param(r"^[a-z]{1,63}$", True, id="a counted one"),
        pytest.param("^(a+)+$", False, id="a repetition of a repetition"),
        pytest.param("^(a|aa)+$", False, id="a repeated choice"),
        pytest.param("x*x*y", False, id="two beside each other"),
        pytest.param("^(.*a){20}$", False, id="a counted repetition of one"),
    ],
)
def test_what_python_may_match(pattern: str, harmless: bool) -> None:  # noqa: FBT001 - a row
    assert is_backtracking_safe(pattern) is harmless


def test_a_name_of_many_parts_is_matched() -> None:
    subdomain = LinearRegex(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")

    assert subdomain.search("managed.cluster-1.example.com")
    assert not subdomain.search("managed..example.com")
    assert not subdomain.search("a" * 100_000 + "!")


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b"])
def test_what_re2_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        LinearRegex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("(?i)(foo|bar)*baz*x*", "straße", False, id="not what begins like its upper case"),
        pytest.param("(?i)[^s]e*x*", "ß", True, id="itself"),
        pytest.param("(?i)stra.e*x*y", "STRAßEXY", True, id="letters beside it"),
    ],
)
def test_letter_whose_other_case_is_two_letters_is_matched_as_itself(pattern: str, text: str, matches: bool) -> None:  # noqa: FBT001 - a row
    assert bool(compile_pattern(pattern).search(text)) is matches


def test_expressions_that_would_grow_without_bound_are_refused() -> None:
    with pytest.raises(re.error, match="too large"):
        LinearRegex("((((a{1,50}){1,50}){1,50}){1,50})")
