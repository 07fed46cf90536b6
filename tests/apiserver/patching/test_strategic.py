"""Strategic merge patches: merge keys, directives and order, as the reference server does them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.json import copy_json
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.model import ApiError
from watchword.apiserver.serving.strategic_patch import apply_strategic_patch

TEXT = Schema("string")
ENV = Schema(
    "array",
    items=Schema("object", properties={"name": TEXT, "value": TEXT}),
    patch_strategy="merge",
    patch_merge_key="name",
)
CONTAINERS = Schema(
    "array",
    items=Schema("object", properties={"name": TEXT, "image": TEXT, "env": ENV}),
    patch_strategy="merge",
    patch_merge_key="name",
)
VOLUMES = Schema(
    "array",
    items=Schema("object", properties={"name": TEXT, "disk": TEXT, "memory": TEXT}),
    patch_strategy="merge,retainKeys",
    patch_merge_key="name",
)
SCHEMA = Schema(
    "object",
    properties={
        "containers": CONTAINERS,
        "volumes": VOLUMES,
        "finalizers": Schema("array", items=TEXT, patch_strategy="merge"),
        "rules": Schema("array", items=Schema("any", preserve_unknown=True)),
        "data": Schema("object", additional=TEXT),
        "swap": Schema("object", properties={"a": TEXT, "b": TEXT}, patch_strategy="replace"),
    },
)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param({"data": {"a": "1"}}, {"data": {"b": "2"}}, {"data": {"a": "1", "b": "2"}}, id="maps merge"),
        pytest.param({"data": {"a": "1"}}, {"data": {"a": None}}, {"data": {}}, id="null deletes"),
        pytest.param({}, {"data": {"a": None, "b": "1"}}, {"data": {"b": "1"}}, id="nulls of new maps vanish"),
        pytest.param({"rules": [1]}, {"rules": [2]}, {"rules": [2]}, id="lists replace by default"),
        pytest.param({"swap": {"a": "1"}}, {"swap": {"b": "1"}}, {"swap": {"b": "1"}}, id="replace strategy"),
        pytest.param(
            {"data": {"a": "1"}}, {"data": {"$patch": "replace", "b": "1"}}, {"data": {"b": "1"}}, id="replace a map"
        ),
        pytest.param({"data": {"a": "1"}}, {"data": {"$patch": "delete"}}, {"data": {}}, id="delete a map"),
        pytest.param(
            {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "c"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "c"}, {"name": "b"}]},
            id="lists merge by key",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": named("b")},
            id="delete an item",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": named("c")},
            id="replace a list",
        ),
        pytest.param(
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]},
            id="lists inside items",
        ),
        pytest.param(
            {"containers": named("a", "b", "c")},
            {"$setElementOrder/containers": named("c", "a")},
            {"containers": named("b", "c", "a")},
            id="order alone",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"$setElementOrder/containers": named("n", "b", "a"), "containers": named("n")},
            {"containers": named("n", "b", "a")},
            id="order with new items",
        ),
        pytest.param(
            {},
            {"$setElementOrder/containers": named("a"), "containers": named("a")},
            {"containers": named("a")},
            id="new",
        ),
        pytest.param({"finalizers": ["x"]}, {"finalizers": ["y", "x"]}, {"finalizers": ["y", "x"]}, id="scalars merge"),
        pytest.param(
            {"finalizers": ["x", "y"]},
            {"$deleteFromPrimitiveList/finalizers": ["x"]},
            {"finalizers": ["y"]},
            id="delete scalars",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "disk": "d"}]},
            {"volumes": [{"name": "v", "memory": "m", "$retainKeys": ["name", "memory"]}]},
            {"volumes": [{"name": "v", "memory": "m"}]},
            id="retain keys",
        ),
        pytest.param(
            {},
            {"volumes": [{"name": "v", "memory": "m", "$retainKeys": ["name", "memory"]}]},
            {"volumes": [{"name": "v", "memory": "m"}]},
            id="directives are never stored",
        ),
        pytest.param({"data": "text"}, {"data": {"a": "1"}}, {"data": {"a": "1"}}, id="another type replaces"),
    ],
)
def test_apply_strategic_patch(document: Any, patch: Any, expected: Any) -> None:
    untouched = copy_json(patch)

    assert apply_strategic_patch(document, patch, SCHEMA) == expected
    assert patch == untouched


@pytest.mark.parametrize(
    ("patch", "code", "told"),
    [
        pytest.param([], 400, "cannot unmarshal array", id="not an object"),
        pytest.param({"data": {"$patch": "explode"}}, 500, "unknown patch type: explode", id="unknown directive"),
        pytest.param({"containers": [{"image": "x"}]}, 500, "does not contain declared merge key: name", id="no key"),
        pytest.param({"containers": [{"$patch": "delete"}]}, 500, "merge key: name", id="delete what?"),
        pytest.param({"containers": [[]]}, 500, "lists of lists", id="list of lists"),
        pytest.param({"$retainKeys": "x"}, 400, "retainKeys", id="retain keys is no list"),
        pytest.param({"$retainKeys": ["a"], "b": 1}, 400, "retainKeys", id="patch beyond the retained keys"),
        pytest.param({"$setElementOrder/containers": {}}, 400, "setElementOrder", id="order is no list"),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "a"}, {"name": "b"}],
            },
            500,
            "doesn't match",
            id="order contradicts the list",
        ),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(patch: Any, code: int, told: str) -> None:
    with pytest.raises(ApiError) as refusal:
        apply_strategic_patch({"data": {"a": "1"}, "containers": named("x")}, patch, SCHEMA)

    assert refusal.value.code == code
    assert told in refusal.value.message


def test_long_lists_cost_no_more_than_they_are_long() -> None:
    names = [str(index) for index in range(20_000)]
    deleted = [{"name": name, "$patch": "delete"} for name in names[::2]]

    result = apply_strategic_patch({"containers": named(*names)}, {"containers": [*deleted, *named("new")]}, SCHEMA)

    assert len(result["containers"]) == 10_001


KEYS = st.sampled_from(
    [
        *("containers", "env", "volumes", "finalizers", "data", "name", "$patch", "$retainKeys"),
        *("$setElementOrder/containers", "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "delete", "replace", "merge"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=80)
@given(document=st.dictionaries(KEYS.filter(lambda key: key[0] != "$"), JSON, max_size=3), patch=JSON)
def test_no_patch_raises_anything_but_a_refusal(document: Any, patch: Any) -> None:
    with contextlib.suppress(ApiError):
        assert isinstance(apply_strategic_patch(document, patch, SCHEMA), dict)
