"""Sets of fields obey the algebra of sets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.apiserver.serving.fieldset import (
    FieldSet,
    difference,
    intersection,
    is_field_set,
    paths,
    print_path,
    union,
)

LEAF: FieldSet = {}
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"s"'])
SETS: st.SearchStrategy[FieldSet] = st.recursive(
    st.just(LEAF),
    lambda inner: st.builds(
        lambda children, member: {".": {}, **children} if member else children,
        st.dictionaries(ELEMENTS, inner, min_size=1, max_size=3),
        st.booleans(),
    ),
    max_leaves=8,
).flatmap(lambda node: st.just({"f:root": node}))


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(paths(fields))


@settings(max_examples=60)
@given(one=SETS, other=SETS)
def test_operations_are_those_of_sets_of_paths(one: FieldSet, other: FieldSet) -> None:
    assert members(union(one, other)) == members(one) | members(other)
    assert members(difference(one, other)) == members(one) - members(other)
    assert members(intersection(one, other)) == members(one) & members(other)


@settings(max_examples=40)
@given(one=SETS, other=SETS)
def test_results_are_well_formed_and_hold_no_empty_branch(one: FieldSet, other: FieldSet) -> None:
    for result in (union(one, other), difference(one, other), intersection(one, other)):
        assert is_field_set(result)
        assert bool(result) is bool(members(result))


@pytest.mark.parametrize(
    ("path", "printed"),
    [
        pytest.param(("f:data", "f:key"), ".data.key", id="fields"),
        pytest.param(("f:c", 'k:{"b":1,"a":"x"}', "f:i"), '.c[a="x",b=1].i', id="item of a keyed list"),
        pytest.param(("f:s", 'v:"x"'), '.s[="x"]', id="item of a set"),
        pytest.param(("f:l", "i:3"), ".l[3]", id="index"),
        pytest.param(("f:l", "k:broken"), ".l[broken]", id="what a client made up"),
    ],
)
def test_print_path(path: tuple[str, ...], printed: str) -> None:
    assert print_path(path) == printed


@pytest.mark.parametrize(
    "value", [None, [], "x", {"x:a": {}}, {"f": {}}, {"f:a": []}, {".": {"f:a": {}}}, {"f:a": {"": {}}}]
)
def test_what_is_no_set_is_seen(value: Any) -> None:
    assert not is_field_set(value)
