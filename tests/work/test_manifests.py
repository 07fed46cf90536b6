"""What a manifest must be to be applied at all."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from watchword.api.meta import Object, Resource
from watchword.api.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS, SERVICES
from watchword.work.manifests import (
    MAX_MANIFEST_BYTES,
    ManifestMeta,
    RejectedManifest,
    ResolvedManifest,
    choose_apply_order,
    choose_desired_object,
    meta_of,
    reject_duplicates,
    resolve_manifest,
    validate_manifest,
)


def a_manifest(**changes: Any) -> Object:
    metadata = {"name": "one", "namespace": "ns", **changes.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **changes}


@pytest.mark.parametrize(
    ("manifest", "objection"),
    [
        pytest.param("text", "not an object", id="no object"),
        pytest.param(None, "not an object", id="nothing"),
        pytest.param(a_manifest(apiVersion=""), "apiVersion", id="no version"),
        pytest.param(a_manifest(apiVersion="a/b/c"), "apiVersion", id="too many slashes"),
        pytest.param(a_manifest(apiVersion="../../api/v1"), "apiVersion", id="climbing version"),
        pytest.param(a_manifest(apiVersion=7), "apiVersion", id="version is a number"),
        pytest.param(a_manifest(kind=""), "kind", id="no kind"),
        pytest.param(a_manifest(kind="Config/Map"), "kind", id="odd kind"),
        pytest.param({**a_manifest(), "metadata": []}, "metadata", id="metadata is a list"),
        pytest.param(a_manifest(metadata={"name": ""}), "no name", id="no name"),
        pytest.param(a_manifest(metadata={"name": 7}), "name cannot", id="name is a number"),
        pytest.param(a_manifest(metadata={"name": "", "generateName": "x-"}), "generateName", id="generated name"),
        pytest.param(a_manifest(metadata={"name": "a/b"}), "name cannot", id="slash"),
        pytest.param(a_manifest(metadata={"name": ".."}), "name cannot", id="parent directory"),
        pytest.param(a_manifest(metadata={"name": "a%2fb"}), "name cannot", id="encoded slash"),
        pytest.param(a_manifest(metadata={"name": "a\nb"}), "name cannot", id="line break"),
        pytest.param(a_manifest(metadata={"name": "\uff41"}), "name cannot", id="wide letter"),
        pytest.param(a_manifest(metadata={"name": "x" * 254}), "name cannot", id="long name"),
        pytest.param(a_manifest(metadata={"namespace": "a/b"}), "namespace", id="odd namespace"),
        pytest.param(a_manifest(metadata={"namespace": ["x"]}), "namespace", id="namespace is a list"),
        pytest.param(a_manifest(data={"x": "y" * MAX_MANIFEST_BYTES}), "larger than 500 KiB", id="too large"),
        pytest.param(a_manifest(), "", id="sound"),
        pytest.param(a_manifest(metadata={"name": "system:Node:x"}), "", id="names of roles have colons"),
    ],
)
def test_decide_manifest(manifest: Any, objection: str) -> None:
    said = validate_manifest(manifest)
    assert objection in said if objection else said == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    st.fixed_dictionaries(
        {}, optional={"apiVersion": JSON, "kind": JSON, "metadata": JSON | st.fixed_dictionaries({"name": JSON})}
    )
    | JSON
)
def test_nothing_crashes_the_reader(manifest: Any) -> None:
    orjson.dumps(asdict(meta_of(0, manifest)))
    assert isinstance(validate_manifest(manifest), str)


def test_a_namespaced_object_needs_a_namespace() -> None:
    manifest = a_manifest(metadata={"namespace": ""})

    refused = resolve_manifest(meta_of(3, manifest), manifest, CONFIG_MAPS)

    assert isinstance(refused, RejectedManifest)
    assert refused.why == "a ConfigMap is namespaced: set metadata.namespace"


def test_what_only_a_server_can_say_is_left_out() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "of-another-cluster"}
    said: Object = {
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": None,
        "ownerReferences": [owner],
        "labels": {},
    }
    manifest = a_manifest(metadata=said, data={"a": "1"}, status={"x": 1})

    placed = placed_as(CONFIG_MAPS, manifest)

    assert placed.wanted == a_manifest(data={"a": "1"})


def test_text_of_a_secret_is_wanted_as_the_server_keeps_it() -> None:
    manifest = {**a_manifest(), "kind": "Secret", "data": {"a": "eA=="}, "stringData": {"b": "y"}}

    wanted = choose_desired_object(manifest, placed_as(SECRETS, manifest).target)

    assert wanted["data"] == {"a": "eA==", "b": "eQ=="}
    assert "stringData" not in wanted


def placed_as(resource: Resource, manifest: Object, ordinal: int = 0) -> ResolvedManifest:
    placed = resolve_manifest(meta_of(ordinal, manifest), manifest, resource)
    assert isinstance(placed, ResolvedManifest)
    return placed


def test_only_the_first_of_two_manifests_of_one_object_counts() -> None:
    manifests = [placed_as(CONFIG_MAPS, a_manifest(), n) for n in range(2)]

    first, second = reject_duplicates(manifests)

    assert isinstance(first, ResolvedManifest)
    assert isinstance(second, RejectedManifest)
    assert "manifest 0" in second.why


def test_others_stand_on_what_is_applied_first() -> None:
    kinds = [DEPLOYMENTS, SERVICES, SECRETS, CONFIG_MAPS, NAMESPACES]
    placed = [
        placed_as(kind, {**a_manifest(), "apiVersion": kind.api_version, "kind": kind.kind}, n)
        for n, kind in enumerate(kinds)
    ]
    custom = ResolvedManifest(ManifestMeta(9, kind="Thing"), placed[0].target, {}, "")

    order = [one.meta.kind for one in choose_apply_order([custom, *placed])]

    assert order == ["Namespace", "Secret", "ConfigMap", "Service", "Deployment", "Thing"]
