"""Events of Open Cluster Management's server become objects of the hub's API, and the agent's objects become events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from watchword.api.meta import Object
from watchword.api.names import Annotation, Finalizer
from watchword.registration.grpc.client.object_events import ObjectCodec, WorkCodec, resync_request
from watchword.registration.grpc.cloud_events import Action, CloudEvent, DataType, EventType, SubResource
from watchword.registration.grpc.errors import GrpcDriverError

CLUSTERS, REQUESTS = ObjectCodec(DataType.MANAGED_CLUSTER), ObjectCodec(DataType.CERTIFICATE_REQUEST)
WORKS = WorkCodec(sequence=lambda: 42)
REPORT = EventType(DataType.MANIFEST_BUNDLE, SubResource.STATUS, Action.UPDATE)
BEGUN = datetime(2026, 1, 2, tzinfo=UTC)
METADATA = {"name": "nginx", "namespace": "edge", "uid": "w1", "resourceVersion": "99", "labels": {"a": "b"}}


def an_event(codec: ObjectCodec, action: str, data: Object | bytes | None = None, **extensions: Any) -> CloudEvent:
    content = data if isinstance(data, bytes) else b"" if data is None else orjson.dumps(data)
    type_ = f"{codec.data_type}.spec.{action}"
    return CloudEvent(id="1", source="kube", type=type_, extensions={"clustername": "edge", **extensions}, data=content)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(an_event(CLUSTERS, "update_request"), id="nothing in it"),
        pytest.param(an_event(CLUSTERS, "update_request", b"[]", resourceid="u1"), id="no object"),
        pytest.param(an_event(CLUSTERS, "update_request", {"metadata": {}}, resourceid="u1"), id="no name"),
        pytest.param(an_event(CLUSTERS, "update_request", {"metadata": {"name": "e"}}), id="no UID"),
        pytest.param(an_event(REQUESTS, "update_request", {"metadata": {"name": "e"}}), id="another kind"),
        pytest.param(an_event(CLUSTERS, "loved_request", {"metadata": {"name": "e"}}), id="unknown action"),
    ],
)
def test_event_that_names_no_object_is_refused(event: CloudEvent) -> None:
    with pytest.raises(GrpcDriverError):
        CLUSTERS.decode(event)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(an_event(WORKS, "create_request", {"manifests": []}, resourceid="w1"), id="no metadata"),
        pytest.param(an_event(WORKS, "create_request", {}, resourceid="w1", metadata="["), id="no JSON"),
        pytest.param(an_event(WORKS, "create_request", {}, resourceid="w1", metadata="[]"), id="no object"),
        pytest.param(an_event(WORKS, "create_request", {}, resourceid="w1", metadata="{}"), id="no generation"),
    ],
)
def test_work_without_its_metadata_is_refused(event: CloudEvent) -> None:
    with pytest.raises(GrpcDriverError):
        WORKS.decode(event)


def test_object_keeps_its_fields_but_managed_fields() -> None:
    cluster = {"metadata": {"name": "edge", "uid": "u1", "resourceVersion": "5", "managedFields": [{}]}, "spec": {}}

    found = CLUSTERS.decode(an_event(CLUSTERS, "update_request", cluster, resourceid="u1", resourceversion="5"))

    assert (found.uid, found.version, found.is_gone) == ("u1", "5", False)
    assert found.object is not None
    assert found.object["kind"] == "ManagedCluster"
    assert "managedFields" not in found.object["metadata"]


@pytest.mark.parametrize(
    ("action", "extensions", "is_gone"),
    [
        pytest.param("delete_request", {"resourceversion": "5"}, True, id="deleted"),
        pytest.param("resync_response", {}, True, id="the hub does not have it"),
        pytest.param("resync_response", {"resourceversion": "5"}, False, id="being deleted, in a resync"),
        pytest.param("update_request", {"resourceversion": "5"}, False, id="being deleted"),
    ],
)
def test_deletion(action: str, extensions: dict[str, Any], is_gone: object) -> None:
    found = CLUSTERS.decode(an_event(CLUSTERS, action, resourceid="u1", deletiontimestamp=BEGUN, **extensions))

    assert (found.uid, found.is_gone, found.deletion) == ("u1", is_gone, "2026-01-02T00:00:00Z")


def test_certificate_request_shows_the_user_that_the_server_authenticated() -> None:
    request: Object = {"metadata": {"name": "r", "uid": "u1"}, "spec": {"username": "system:serviceaccount:hub:grpc"}}
    request["metadata"]["annotations"] = {Annotation.CSR_USER: "system:bootstrap:abcdef"}

    found = REQUESTS.decode(an_event(REQUESTS, "create_request", request))

    assert found.object is not None
    assert found.object["spec"]["username"] == "system:bootstrap:abcdef"


def test_manifest_bundle_becomes_a_work() -> None:
    bundle = {
        "manifests": [{"kind": "ConfigMap"}],
        "deleteOption": {"propagationPolicy": "Orphan"},
        "executer": {"subject": {"type": "ServiceAccount"}},
    }
    event = an_event(
        WORKS, "create_request", bundle, resourceid="w1", resourceversion=3, metadata=orjson.dumps(METADATA).decode()
    )

    found = WORKS.decode(event)

    assert found.version == "3"
    assert found.object is not None
    assert found.object["spec"] == {
        "workload": {"manifests": [{"kind": "ConfigMap"}]},
        "deleteOption": {"propagationPolicy": "Orphan"},
        "executor": {"subject": {"type": "ServiceAccount"}},
    }
    assert found.object["metadata"]["generation"] == 3


def test_status_of_a_work_is_published_under_its_generation() -> None:
    status = {"conditions": [{"type": "Applied"}], "resourceStatus": {"manifests": [{"x": 1}]}}
    work = {"metadata": {**METADATA, "generation": 3}, "status": status}

    event = WORKS.encode(REPORT, work, "edge")

    assert event.json() == {"conditions": [{"type": "Applied"}], "resourceStatus": [{"x": 1}]}
    assert (event.extensions["resourceid"], event.extensions["resourceversion"]) == ("w1", 3)
    assert (event.extensions["clustername"], event.extensions["sequenceid"]) == ("edge", "42")
    assert "resourceVersion" not in orjson.loads(str(event.extensions["metadata"]))


@pytest.mark.parametrize(
    ("finalizers", "conditions"),
    [
        pytest.param([Finalizer.MANIFEST_WORK], [], id="objects are still there"),
        pytest.param([], ["Deleted"], id="objects are gone"),
    ],
)
def test_work_without_finalizer_reports_that_its_objects_are_gone(finalizers: list[str], conditions: list[str]) -> None:
    metadata = {**METADATA, "generation": 3, "finalizers": finalizers, "deletionTimestamp": "2026-01-02T00:00:00Z"}

    event = WORKS.encode(REPORT, {"metadata": metadata}, "edge")

    assert [row["type"] for row in event.json()["conditions"]] == conditions


def test_resync_names_every_version_that_is_known() -> None:
    event = resync_request(DataType.LEASE, {"u1": "7", "u2": "not a number"}, "edge")

    assert event.type == f"{DataType.LEASE}.spec.resync_request"
    assert event.json() == {
        "resourceVersions": [
            {"resourceID": "u1", "resourceVersion": 7},
            {"resourceID": "u2", "resourceVersion": 0},
        ]
    }
