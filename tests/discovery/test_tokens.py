from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.discovery.tokens import (
    BootstrapToken,
    BootstrapTokenLimits,
    parse_token_id,
    validate_token_strength,
    validate_token_use,
)

GOOD = "x7k2m9.q8w3e5r1t0y6u4i2"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("x7k2m9", id="only an id"),
        pytest.param("x7k2m9:q8w3e5r1t0y6u4i2", id="another separator"),
        pytest.param("X7k2m9.q8w3e5r1t0y6u4i2", id="upper case"),
        pytest.param("x7k2m.q8w3e5r1t0y6u4i2", id="short id"),
        pytest.param("x7k2m9.q8w3e5r1t0y6u4i", id="short secret"),
        pytest.param("x7k2m9.q8w3e5r1t0y6u4i22", id="long secret"),
        pytest.param(GOOD + "\n", id="trailing newline"),
        pytest.param(" " + GOOD, id="leading space"),
        pytest.param("\uff41bcdef.q8w3e5r1t0y6u4i2", id="full width letter"),
        pytest.param("x7k2m9.q8w3e5r1t0y6u4i\u0661", id="digit of another script"),
        pytest.param("x7k2m9.q8w3e5r1.t0y6u4i2", id="two dots"),
    ],
)
def test_a_malformed_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(BootstrapTokenRefused) as refusal:
        BootstrapToken.parse(text)
    assert refusal.value.reason == DiscoveryReason.TOKEN_MALFORMED
    assert not text.strip() or text not in str(refusal.value)


def test_a_token_does_not_print_its_secret() -> None:
    token = BootstrapToken.parse(GOOD)
    assert "q8w3" not in f"{token} {token!r} {token.secret}"
    assert str(token) == "x7k2m9.***"
    assert token.reveal() == GOOD


def test_generated_tokens_are_well_formed_and_not_weak() -> None:
    for _ in range(500):
        token = BootstrapToken.generate()
        assert BootstrapToken.parse(token.reveal()) == token
        assert validate_token_strength(token) == ""


def test_every_character_is_drawn_with_equal_chances() -> None:
    letters = Counter("".join(BootstrapToken.generate().secret.reveal() for _ in range(5000)))
    expected = 5000 * 16 / 36
    chi_square = sum((count - expected) ** 2 / expected for count in letters.values())
    assert len(letters) == 36
    assert chi_square < 90  # 35 degrees of freedom: exceeded once in a million runs


def test_bytes_that_would_favour_some_letters_are_thrown_away() -> None:
    drawn = BootstrapToken.generate(lambda n: bytes([255, 252, 0, 35, 36, 251] * n))
    assert set(drawn.reveal()) <= {"0", "z", "."}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("abcdef.0123456789abcdef", id="the sample of every manual"),
        pytest.param("zzzzzz.0123456789abcdef", id="its secret under another id"),
        pytest.param("ae23dc.faddc87f5a5ab458", id="the design's example"),
        pytest.param("07401b.f395accd246ae52d", id="the reference's example"),
        pytest.param("aaaaaa.aaaaaaaaaaaaaaaa", id="one letter"),
        pytest.param("secret.abababababababab", id="two letters"),
        pytest.param("secret.abcdefghabcdefgh", id="repeats itself"),
        pytest.param("secret.a1b2c3d4a1b2c3d4", id="repeats itself, mixed"),
        pytest.param("secret.3456789abcdefghi", id="counts"),
        pytest.param("secret.zyxwvutsrqponmlk", id="counts down"),
        pytest.param("secret.k2j00000000x9w8q", id="a long run of zeros"),
    ],
)
def test_a_guessable_token_is_called_weak(text: str) -> None:
    assert "token generate" in validate_token_strength(BootstrapToken.parse(text))


def test_an_id_is_read_from_an_id_or_a_whole_token() -> None:
    assert parse_token_id("x7k2m9") == parse_token_id(GOOD) == "x7k2m9"
    for wrong in ("x7k2m", "x7k2m9.", GOOD + "0", "x7k2m9\n"):
        with pytest.raises(BootstrapTokenRefused, match="token id"):
            parse_token_id(wrong)


@pytest.mark.parametrize(
    ("patterns", "maximum", "cluster", "used", "allowed"),
    [
        pytest.param("", None, "edge-1", 999, False, id="an empty list allows nothing"),
        pytest.param("edge-1,Edge", None, "edge-1", 0, False, id="an unreadable pattern allows nothing"),
        pytest.param("edge-1", None, "edge-10", 0, False, id="a name is not a prefix"),
        pytest.param("edge-?", None, "edge-1", 0, False, id="only the star is special"),
        pytest.param("edge-*", None, "edge", 0, False, id="the part before the star is needed"),
        pytest.param("a*b*c", None, "acb", 0, False, id="the end is needed"),
        pytest.param("ab*bc", None, "abc", 0, False, id="ends may not overlap"),
        pytest.param("*", None, "Not-A-Label", 0, False, id="no name at all"),
        pytest.param(None, "0", "edge-1", 0, False, id="zero is no count"),
        pytest.param(None, "many", "edge-1", 0, False, id="a word is no count"),
        pytest.param(None, "2", "edge-1", 2, False, id="used up"),
        pytest.param(None, None, "edge-1", 999, True, id="unbound"),
        pytest.param("edge-1", None, "edge-1", 0, True, id="the very name"),
        pytest.param("prod, edge-*", None, "edge-1", 0, True, id="a pattern among others"),
        pytest.param("a*b*c", None, "axxbyyc", 0, True, id="two stars"),
        pytest.param("*", None, "anything", 0, True, id="any name"),
        pytest.param(None, "2", "edge-1", 1, True, id="one use left"),
    ],
)
def test_decide_binding(patterns: str | None, maximum: str | None, cluster: str, used: int, allowed: bool) -> None:  # noqa: FBT001 - a column
    annotations = {"watchword.dev/allowed-clusters": patterns, "watchword.dev/max-uses": maximum}
    limits = BootstrapTokenLimits.from_annotations({k: v for k, v in annotations.items() if v is not None})
    assert (validate_token_use(limits, cluster, other_clusters=used) == "") == allowed


NAMES = st.from_regex(r"[a-c]{1,3}(-[a-c]{1,3}){0,2}[a-c]", fullmatch=True)


@given(pattern=st.from_regex(r"[a-c*]{1,6}", fullmatch=True), name=NAMES)
@settings(max_examples=60)
def test_a_pattern_matches_exactly_what_its_regular_expression_would(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern.replace("*", "[a-z0-9-]*"), name) is not None
    assert (validate_token_use(BootstrapTokenLimits((pattern,)), name, other_clusters=0) == "") == expected
