"""The discovery documents of the served kinds."""

from __future__ import annotations

import orjson
import pytest
from msgspec.structs import replace

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.api.resources import CORE_EVENTS, SECRETS
from watchword.apiserver.documents.discovery import (
    AGGREGATED,
    DiscoveryHandler,
    accepts_aggregated,
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    by_priority,
    storage_version_hash,
    version_info,
)
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.model import ApiError, HandlerRequest, RequestInfo, ResourceKind

WIDGET = ResourceKind(
    Resource("example.com", "v1beta1", "widgets", "Widget"),
    Schema("object"),
    short_names=("wd",),
    categories=("all",),
    subresources=("status", "scale"),
    custom=True,
    storage_version="v1",
)
WIDGET_V1 = replace(WIDGET, resource=Resource("example.com", "v1", "widgets", "Widget"))
KINDS = (*BUILTINS, WIDGET, WIDGET_V1)


def asking(path: str, **headers: str) -> HandlerRequest:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return HandlerRequest(RequestInfo("get", path), "GET", (), named, b"")


def named(kind: str, group: str = "") -> ResourceKind:
    return next(each for each in BUILTINS if (each.resource.kind, each.resource.group) == (kind, group))


def body(response: Response) -> Object:
    decoded: Object = orjson.loads(response.body)
    return decoded


def test_versions_stand_in_the_order_of_their_maturity() -> None:
    shuffled = ["v1alpha1", "foo1", "v2beta1", "v10", "v2", "v1", "v11alpha2", "v3beta10", "bar"]

    assert by_priority(shuffled) == ["v10", "v2", "v1", "v3beta10", "v2beta1", "v11alpha2", "v1alpha1", "bar", "foo1"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(named("Secret"), "S6u1pOWzb84=", id="secret"),
        pytest.param(named("Pod"), "xPOwRZ+Yhw8=", id="pod"),
        pytest.param(WIDGET, storage_version_hash(WIDGET_V1), id="every version of a kind has one"),
        pytest.param(
            named("Event", "events.k8s.io"), storage_version_hash(named("Event")), id="both groups of an event too"
        ),
    ],
)
def test_storage_version_hash(kind: ResourceKind, expected: str) -> None:
    assert storage_version_hash(kind) == expected


def test_the_resources_of_a_version_are_listed_with_what_is_below_them() -> None:
    listed = api_resource_list(KINDS, "", "v1") or {}

    entries = {entry["name"]: entry for entry in listed["resources"]}
    assert "apiVersion" not in listed
    assert entries["secrets"] == {
        "name": "secrets",
        "singularName": "secret",
        "namespaced": True,
        "kind": "Secret",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "storageVersionHash": "S6u1pOWzb84=",
    }
    assert entries["serviceaccounts/token"] == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }


def test_questions_that_are_not_stored_have_no_storage_version() -> None:
    listed = api_resource_list(KINDS, "authentication.k8s.io", "v1") or {}

    assert all("storageVersionHash" not in entry for entry in listed["resources"])
    assert all(entry["verbs"] == ["create"] for entry in listed["resources"])


def test_a_group_prefers_its_most_mature_version() -> None:
    group = api_group(KINDS, "example.com") or {}

    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    assert api_group_list(KINDS)["groups"][-1]["name"] == "example.com"


def test_what_is_not_served_is_not_found() -> None:
    assert api_group(KINDS, "nothing.io") is None
    assert api_resource_list(KINDS, "apps", "v9") is None


def test_the_aggregated_document_names_kinds_relative_to_their_parent() -> None:
    items = {item["metadata"].get("name", ""): item for item in aggregated(KINDS, core=False)["items"]}

    widget = items["example.com"]["versions"][0]["resources"][0]
    assert widget["responseKind"] == {"group": "", "version": "", "kind": "Widget"}
    assert (widget["scope"], widget["shortNames"], widget["categories"]) == ("Namespaced", ["wd"], ["all"])
    assert {below["subresource"]: below["responseKind"]["kind"] for below in widget["subresources"]} == {
        "scale": "Scale",
        "status": "Widget",
    }
    assert "" not in items
    assert [item["metadata"] for item in aggregated(KINDS, core=True)["items"]] == [{}]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", False, id="nothing said"),
        pytest.param("application/json", False, id="plain"),
        pytest.param(f"{AGGREGATED},application/json", True, id="kubectl"),
        pytest.param("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", False, id="beta"),
        pytest.param(f"application/json,{AGGREGATED}", False, id="plain preferred"),
        pytest.param(f"text/html,{AGGREGATED}", True, id="unknown skipped"),
    ],
)
def test_accepts_aggregated(accept: str, expected: bool) -> None:  # noqa: FBT001 - a row of a table
    assert accepts_aggregated(accept) is expected


async def test_an_unchanged_document_is_not_sent_twice() -> None:
    kinds, generation = list(BUILTINS), [0]
    discovery = DiscoveryHandler(lambda: kinds, lambda: generation[0])
    first = await discovery.handle(asking("/apis", accept=AGGREGATED))

    again = await discovery.handle(asking("/apis", accept=AGGREGATED, if_none_match=first.header("ETag")))
    kinds.append(WIDGET)
    generation[0] += 1
    changed = await discovery.handle(asking("/apis", accept=AGGREGATED, if_none_match=first.header("ETag")))

    assert (first.header("Content-Type"), first.header("Cache-Control")) == (AGGREGATED, "public")
    assert (again.status, again.body) == (304, b"")
    assert changed.status == 200
    assert b"widgets" in changed.body


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/api", "APIVersions", id="api"),
        pytest.param("/api/v1", "APIResourceList", id="core"),
        pytest.param("/apis", "APIGroupList", id="apis"),
        pytest.param("/apis/apps", "APIGroup", id="group"),
        pytest.param("/apis/apps/v1/", "APIResourceList", id="version"),
    ],
)
async def test_legacy_paths(path: str, kind: str) -> None:
    discovery = DiscoveryHandler(lambda: BUILTINS, lambda: 0)

    answer = await discovery.handle(asking(path))

    assert body(answer)["kind"] == kind


@pytest.mark.parametrize("path", ["/api/v2", "/apis/none", "/apis/apps/v1/x/y"])
async def test_paths_of_nothing(path: str) -> None:
    discovery = DiscoveryHandler(lambda: BUILTINS, lambda: 0)

    assert (await discovery.handle(asking(path))).status == 404


async def test_a_version_that_a_group_does_not_have_is_not_found() -> None:
    discovery = DiscoveryHandler(lambda: BUILTINS, lambda: 0)

    with pytest.raises(ApiError, match="could not find the requested resource"):
        await discovery.handle(asking("/apis/apps/v9"))


def test_the_version_parses_as_a_kubernetes_release() -> None:
    info = version_info()

    assert info["gitVersion"].startswith(f"v{info['major']}.{info['minor']}.0+watchword.")


def test_stored_events_live_in_one_place() -> None:
    assert named("Event", "events.k8s.io").stored_as == CORE_EVENTS
    assert named("Secret").stored_as is None
    assert named("Secret").resource == SECRETS
