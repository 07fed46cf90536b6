"""Documents become schemas, whatever they hold; patterns and formats mean what they mean elsewhere."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.json import is_deeper_than
from watchword.apiserver.kinds.from_openapi import from_openapi
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.kinds.schema_validation import is_formatted
from watchword.cel.re2_patterns import compile_pattern


def test_a_document_is_read() -> None:
    schema = from_openapi(
        {
            "type": "object",
            "description": "d",
            "required": ["l"],
            "properties": {
                "l": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["a"]},
                    "x-kubernetes-list-type": "set",
                    "default": [],
                }
            },
            "oneOf": [{"required": ["l"]}],
        }
    )

    listed = schema.properties["l"]
    assert (schema.type, schema.description, schema.required) == ("object", "d", ("l",))
    assert (listed.list_type, listed.has_default, listed.default) == ("set", True, [])
    assert schema.constraints["oneOf"] == (Schema("any", required=("l",)),)
    assert schema.contains == {"defaults", "unique lists"}


def test_a_resource_has_metadata_whose_name_alone_may_be_restricted() -> None:
    named = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}, "labels": {"type": "string"}}}
    metadata = Schema("object", properties={"name": Schema("string"), "labels": Schema("object")})

    schema = from_openapi({"type": "object", "properties": {"metadata": named}}, metadata=metadata)

    inside = schema.properties["metadata"].properties
    assert inside["name"].constraints == {"maxLength": 3}
    assert inside["labels"].type == "object"


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("^a$", "a\n", False, id="dollar is the very end"),
        pytest.param("^[a$]+$", "a$", True, id="dollar in a class is itself"),
        pytest.param(r"^\$$", "$", True, id="escaped dollar"),
        pytest.param(r"^\d+$", "٣", False, id="digits are ASCII"),
        pytest.param("^[[:alpha:]]+$", "aB", True, id="POSIX class"),
        pytest.param(r"^a\z", "a", True, id="end of text"),
        pytest.param("b", "abc", True, id="anywhere"),
        pytest.param("^[[a]+$", "[a", True, id="bracket in a class is itself"),
        pytest.param("^[^[]$", "[", False, id="bracket in a negated class is itself"),
        pytest.param("^[a&&b||c]+$", "&|", True, id="signs of Python's sets are themselves"),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:  # noqa: FBT001 - a table column
    assert bool(compile_pattern(pattern).search(text)) is matches


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-01-01T00:00:00.123+02:00", "2026-01-01"),
        ("date", "2026-02-28", "2026-02-30"),
        ("byte", "aGk=", "a!"),
        ("ipv4", "10.0.0.1", "::1"),
        ("ipv6", "::1", "10.0.0.1"),
        ("hostname", "a.example.com", "-a"),
        ("uri", "https://example.com/x", "not a uri"),
        ("uuid", "8FC7DBFA-841f-4db5-8883-6e14fa9f3e13", "8fc7"),
        ("duration", "1h30m", "soon"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert is_formatted(good, name)
    assert not is_formatted(bad, name)


def test_unknown_format_is_not_enforced() -> None:
    assert is_formatted("anything", "int32")


@pytest.mark.parametrize(("depth", "deeper"), [(3, False), (4, True)])
def test_depth(depth: int, deeper: bool) -> None:  # noqa: FBT001 - a table column
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}

    assert is_deeper_than(value, 3) is deeper


KEYS = ["type", "properties", "items", "required", "default", "enum", "allOf", "not", "additionalProperties"]
KEYS += ["x-kubernetes-list-map-keys", "x-kubernetes-validations", "x-kubernetes-embedded-resource", "pattern", "a"]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "array", "string", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=80)
@given(document=DOCUMENTS)
def test_no_document_raises_anything(document: Any) -> None:
    assert isinstance(from_openapi(document), Schema)


@settings(max_examples=60)
@given(pattern=st.text("ab[]()^$*+?{}\\|.:-12", max_size=10), name=st.text(max_size=5), text=st.text(max_size=10))
def test_no_pattern_or_format_raises_anything_else(pattern: str, name: str, text: str) -> None:
    is_formatted(text, name)
    with contextlib.suppress(re.error):
        compile_pattern(pattern)
