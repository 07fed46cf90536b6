"""OpenAPI documents: complete in themselves, and what kubectl looks for is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from watchword.api.meta import Object, Resource
from watchword.apiserver.documents.openapi import OpenApiHandler, component_of, document, document_v2
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.model import ApiError, HandlerRequest, RequestInfo, ResourceKind

WIDGET = ResourceKind(
    Resource("example.com", "v1", "widgets", "Widget"),
    Schema(
        "object",
        description="a widget",
        required=("spec",),
        properties={
            "spec": Schema(
                "object",
                properties={
                    "size": Schema("integer", has_default=True, default=1, constraints={"minimum": 0}),
                    "port": Schema("int-or-string"),
                    "free": Schema("any", preserve_unknown=True),
                    "none": Schema("any"),
                    "tags": Schema("object", additional=Schema("string")),
                    "parts": Schema("array", items=Schema("object"), list_type="map", list_map_keys=("name",)),
                    "either": Schema("string", nullable=True, constraints={"anyOf": (Schema("string"),)}),
                },
                rules=({"rule": "self.size > 0"},),
            )
        },
    ),
    subresources=("status",),
    custom=True,
)


def asking(path: str, query: tuple[tuple[str, str], ...] = (), **headers: str) -> HandlerRequest:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return HandlerRequest(RequestInfo("get", path), "GET", query, named, b"")


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for below in node.values():
            yield from references(below)
    elif isinstance(node, list):
        for below in node:
            yield from references(below)


def of_group(group: str) -> list[ResourceKind]:
    return [kind for kind in (*BUILTINS, WIDGET) if kind.resource.group == group]


GROUPS = sorted({kind.resource.group for kind in (*BUILTINS, WIDGET)})


@pytest.mark.parametrize("group", GROUPS)
def test_every_reference_leads_to_a_component(group: str) -> None:
    drawn = document(of_group(group))

    known = {f"#/components/schemas/{name}" for name in drawn["components"]["schemas"]}
    assert set(references(drawn)) <= known


@pytest.mark.parametrize("group", GROUPS)
def test_every_patch_says_its_kind_and_takes_field_validation(group: str) -> None:
    for kind in of_group(group):
        if "patch" not in kind.verbs:
            continue
        item = next(path for name, path in document([kind])["paths"].items() if name.endswith("/{name}"))
        patch = item["patch"]
        resource = kind.resource
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        assert patch["x-kubernetes-group-version-kind"] == gvk
        assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}


def test_components_say_how_lists_are_merged() -> None:
    schemas = document(of_group("apps"))["components"]["schemas"]

    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_a_custom_kind_is_drawn_as_its_definition_wrote_it() -> None:
    schemas = document([WIDGET])["components"]["schemas"]

    widget = schemas["com.example.v1.Widget"]
    spec = widget["properties"]["spec"]
    assert widget["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert widget["properties"]["metadata"]["allOf"][0]["$ref"].endswith("ObjectMeta")
    assert spec["properties"]["size"] == {"type": "integer", "default": 1, "minimum": 0}
    assert spec["properties"]["port"]["x-kubernetes-int-or-string"] is True
    assert spec["properties"]["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["properties"]["either"] == {"type": "string", "nullable": True, "anyOf": [{"type": "string"}]}
    assert spec["x-kubernetes-validations"] == [{"rule": "self.size > 0"}]
    assert "com.example.v1.WidgetList" in schemas


def _empty(node: Any) -> bool:
    if isinstance(node, dict):
        properties: Object = node.get("properties", {})
        return any(below == {} for below in properties.values()) or any(_empty(below) for below in node.values())
    return isinstance(node, list) and any(_empty(below) for below in node)


def test_no_field_has_an_empty_schema_because_kubectl_explain_fails_on_it() -> None:
    assert not _empty(document([*BUILTINS, WIDGET]))


def test_version_two_has_neither_junctors_nor_references_to_version_three() -> None:
    drawn = document_v2([*BUILTINS, WIDGET])
    text = orjson.dumps(drawn)

    assert b"#/components/" not in text
    assert b'"oneOf":[' not in text
    assert {reference.removeprefix("#/definitions/") for reference in references(drawn)} <= drawn["definitions"].keys()


async def test_the_index_leads_to_documents_that_never_change() -> None:
    api = OpenApiHandler(lambda: [*BUILTINS, WIDGET])
    index = orjson.loads((await api.handle(asking("/openapi/v3"))).body)["paths"]
    path, _, hashed = index["apis/example.com/v1"]["serverRelativeURL"].partition("?hash=")

    right = await api.handle(asking(path, (("hash", hashed),)))
    wrong = await api.handle(asking(path, (("hash", "0"),)))
    known = await api.handle(asking(path, if_none_match=right.header("ETag")))

    assert (right.status, right.header("Cache-Control")) == (200, "public, immutable")
    assert (wrong.status, wrong.header("Location")) == (301, f"{path}?hash={hashed}")
    assert (known.status, known.body) == (304, b"")


async def test_a_changed_definition_changes_only_its_own_document() -> None:
    kinds = [*BUILTINS, WIDGET]
    api = OpenApiHandler(lambda: kinds)
    before = api.index()

    kinds[-1] = replace(WIDGET, schema_source=Schema("object", description="another widget"))
    after = api.index()

    assert {place for place in after if before[place] != after[place]} == {"apis/example.com/v1"}


@pytest.mark.parametrize("path", ["/openapi/v3/apis/none/v1", "/openapi/v4", "/openapi/v3/api"])
async def test_documents_of_nothing(path: str) -> None:
    assert (await OpenApiHandler(lambda: BUILTINS).handle(asking(path))).status == 404


async def test_protobuf_alone_is_not_acceptable() -> None:
    with pytest.raises(ApiError) as refusal:
        await OpenApiHandler(lambda: BUILTINS).handle(
            asking("/openapi/v2", accept="application/x.spec.v2@v1.0+protobuf")
        )

    assert refusal.value.code == 406


def test_components_are_named_as_kubernetes_names_them() -> None:
    named = {component_of(kind) for kind in BUILTINS}

    assert "io.k8s.api.core.v1.Secret" in named
    assert "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" in named
