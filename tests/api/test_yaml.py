from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api import yaml, yaml_documents

BOMB = "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(BOMB, "aliases are not accepted", id="aliases that multiply"),
        pytest.param("a: &a\n  b: *a\n", "aliases are not accepted", id="a value inside itself"),
        pytest.param("a: 1\na: 2\n", "'a' appears twice", id="duplicate key"),
        pytest.param("<<: {a: 1}\n", "merge keys", id="merge key"),
        pytest.param("[" * 5000, "nested too deeply", id="five thousand brackets"),
        pytest.param("a: !!python/object/apply:os.system [ls]\n", "tag", id="python object"),
        pytest.param("a: !!binary aGk=\n", "tag", id="binary"),
        pytest.param("a: !secret x\n", "tag", id="local tag"),
        pytest.param("? [a]\n: b\n", "key is not a plain word", id="list as a key"),
        pytest.param("---\na: 1\n---\nb: 2\n", "more than one", id="two documents"),
        pytest.param("a: [", "not YAML", id="cut off"),
        pytest.param("a: \x01", "not", id="control character"),
        pytest.param("a: \ud800", "not", id="lone surrogate"),
        pytest.param(b"\xff\xfe\x00", "not UTF-8", id="not utf-8"),
        pytest.param("a: !!int words\n", "what its tag says", id="tag and value disagree"),
        pytest.param("a: " + "9" * 5000, "what its tag says", id="number beyond reason"),
        pytest.param("a" * (yaml_documents.MAXIMUM_BYTES + 1), "larger than", id="oversized"),
    ],
)
def test_unusual_yaml_is_refused_with_one_sentence(text: str | bytes, complaint: str) -> None:
    with pytest.raises(yaml.YamlError, match=complaint):
        yaml.load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("a: yes\nb: 2020-01-01\nc: 12:30\n", {"a": "yes", "b": "2020-01-01", "c": "12:30"}, id="words"),
        pytest.param("a: true\nb: 0x1f\nc: 1.5e3\nd: ~\ne:\n", {"a": True, "b": 31, "c": 1500.0, "d": None, "e": None}),
        pytest.param("1: a\ntrue: b\n", {"1": "a", "true": "b"}, id="keys are strings"),
        pytest.param(b"\xef\xbb\xbfa: 1", {"a": 1}, id="byte order mark"),
        pytest.param("a: b\t\n", {"a": "b"}, id="a tab after a value, as libyaml and Go read it"),
    ],
)
def test_plain_yaml_is_read(text: str | bytes, value: Any) -> None:
    assert yaml.load(text) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=60)
def test_what_is_written_is_read_back(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    if "<<" in json.dumps(value):
        return
    assert yaml.load(yaml.dump(value)) == value


@pytest.mark.parametrize("word", ["1e3", "0o17", "0x1f", "012", "true", "yes", "~", "", "1.5", "2020-01-01", "- a"])
def test_a_string_that_looks_like_something_else_stays_a_string(word: str) -> None:
    assert yaml.load(yaml.dump({"a": word})) == {"a": word}


@given(st.text() | st.binary())
@settings(max_examples=60)
def test_anything_is_read_or_refused(text: str | bytes) -> None:
    try:
        yaml.load(text)
    except yaml.YamlError:
        return
