from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.selectors import (
    FieldRequirement,
    LabelSelector,
    Operator,
    Requirement,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
    parse_structured_selector,
)

LABELS = {"app": "web", "tier": "front", "example.com/zone": "a", "empty": "", "size": "7"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("app=", id="equal to nothing, but it has a value"),
        pytest.param("app=db", id="another value"),
        pytest.param("missing=", id="absent is not empty"),
        pytest.param("app!=web", id="not this value"),
        pytest.param("app in (db,cache)", id="outside the set"),
        pytest.param("app notin (web)", id="inside the excluded set"),
        pytest.param("missing", id="must exist"),
        pytest.param("!app", id="must not exist"),
        pytest.param("app=web,tier=back", id="one of two fails"),
        pytest.param("size>7", id="not greater"),
        pytest.param("app>1", id="not a number"),
    ],
)
def test_selectors_that_do_not_match(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty selects everything"),
        pytest.param("  ", id="blank selects everything"),
        pytest.param("app=web", id="equal"),
        pytest.param("app == web", id="double equal with spaces"),
        pytest.param("missing!=x", id="an absent label differs from any value"),
        pytest.param("missing notin (x, y)", id="an absent label is in no set"),
        pytest.param("app in (db, web)", id="in a set"),
        pytest.param("empty in (,a)", id="the empty value in a set"),
        pytest.param("empty=", id="the empty value"),
        pytest.param("app,!missing", id="exists and does not"),
        pytest.param("example.com/zone=a,tier in (front)", id="prefixed key"),
        pytest.param("size>6,size<8", id="numbers"),
    ],
)
def test_selectors_that_match(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        *(",", "app=web,", ",app", "app=web,,tier", "app in", "app in (", "app in (a", "app web", "!"),
        *("a b=c", "app=we(b", "-app=x", "app=-x", "app=" + "x" * 64, "a/b/c=d", "A.Com/x=y", "/x", "app>x", "=x"),
        "app\u0660=1",
    ],
)
def test_what_is_not_a_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


def test_the_structured_form_reads_like_the_written_one() -> None:
    structure = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "missing", "operator": "DoesNotExist"},
        ],
    }

    assert parse_structured_selector(structure) == parse_label_selector("app=web,tier in (front,back),!missing")


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(SelectorError, match="Like"):
        parse_structured_selector({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("metadata.name=x", (FieldRequirement("metadata.name", "x"),), id="equal"),
        pytest.param("type!=Opaque", (FieldRequirement("type", "Opaque", negated=True),), id="different"),
        pytest.param(r"a==b\,c\=d\\", (FieldRequirement("a", "b,c=d\\"),), id="escapes"),
        pytest.param("a=b,c!=d", (FieldRequirement("a", "b"), FieldRequirement("c", "d", negated=True)), id="two"),
    ],
)
def test_field_selectors(text: str, expected: tuple[FieldRequirement, ...]) -> None:
    assert parse_field_selector(text) == expected


@pytest.mark.parametrize("text", ["a", "a=b=c", r"a=b\x", "a=b,c"])
def test_what_is_not_a_field_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)


WORDS = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, WORDS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        WORDS,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.frozensets(st.one_of(WORDS, st.just("")), min_size=1, max_size=3),
    ),
)


def written(requirement: Requirement) -> str:
    if requirement.operator is Operator.EXISTS:
        return requirement.key
    if requirement.operator is Operator.DOES_NOT_EXIST:
        return f"!{requirement.key}"
    if len(requirement.values) == 1:
        sign = "=" if requirement.operator is Operator.IN else "!="
        return f"{requirement.key}{sign}{next(iter(requirement.values))}"
    return f"{requirement.key} {requirement.operator} ({','.join(sorted(requirement.values))})"


@settings(max_examples=60)
@given(st.lists(REQUIREMENTS, max_size=4))
def test_a_selector_survives_being_written_and_read(requirements: list[Requirement]) -> None:
    selector = LabelSelector(tuple(requirements))

    assert parse_label_selector(",".join(map(written, requirements))) == selector


@settings(max_examples=60)
@given(st.text(alphabet="ab=!,() in<>\\/.é\n", max_size=20))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            parse(text)
        except SelectorError:
            continue
