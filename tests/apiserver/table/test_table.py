"""Tables: ages, cells and columns as people see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.kinds.columns import age, human_duration
from watchword.apiserver.serving.model import ApiError, ResourceKind
from watchword.apiserver.serving.resources import table

NOW = datetime(2024, 1, 2, tzinfo=UTC)
BORN = "2024-01-01T00:00:00Z"


def of(kind: str, group: str = "") -> ResourceKind:
    return next(each for each in BUILTINS if (each.resource.kind, each.resource.group) == (kind, group))


def shown(kind: ResourceKind, obj: Object) -> dict[str, Any]:
    obj.setdefault("metadata", {}).setdefault("creationTimestamp", BORN)
    rendered = table(kind, [obj], now=NOW)
    names = [column["name"] for column in rendered["columnDefinitions"]]
    return dict(zip(names, rendered["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(-5, "<invalid>", id="in the future"),
        pytest.param(-1, "0s", id="clocks differ a little"),
        pytest.param(119, "119s", id="seconds"),
        pytest.param(120, "2m", id="two minutes"),
        pytest.param(599, "9m59s", id="minutes and seconds"),
        pytest.param(600, "10m", id="minutes"),
        pytest.param(3 * 3600, "3h", id="three hours"),
        pytest.param(8 * 3600 - 1, "7h59m", id="hours and minutes"),
        pytest.param(47 * 3600, "47h", id="hours"),
        pytest.param(48 * 3600, "2d", id="two days"),
        pytest.param(7 * 86400 + 3600, "7d1h", id="days and hours"),
        pytest.param(8 * 86400, "8d", id="days"),
        pytest.param(2 * 365 * 86400 + 86400, "2y1d", id="years and days"),
        pytest.param(9 * 365 * 86400, "9y", id="years"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == text


def test_an_age_of_nothing_is_unknown() -> None:
    assert age(None, NOW) == age("nonsense", NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("kind", "obj", "cells"),
    [
        pytest.param(of("Namespace"), {"status": {"phase": "Active"}}, {"Status": "Active", "Age": "24h"}, id="ns"),
        pytest.param(of("Secret"), {"type": "Opaque", "data": {"a": ""}}, {"Type": "Opaque", "Data": 1}, id="secret"),
        pytest.param(of("ConfigMap"), {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Data": 2}, id="configmap"),
        pytest.param(
            of("RoleBinding", "rbac.authorization.k8s.io"),
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                ],
            },
            {"Role": "Role/r", "Users": "u", "Groups": "", "ServiceAccounts": "n/s"},
            id="role binding",
        ),
        pytest.param(
            of("CertificateSigningRequest", "certificates.k8s.io"),
            {
                "spec": {"signerName": "s.io/x", "username": "me", "expirationSeconds": 3600},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "YQ=="},
            },
            {"Requestor": "me", "RequestedDuration": "60m", "Condition": "Approved,Issued"},
            id="csr",
        ),
        pytest.param(
            of("Deployment", "apps"),
            {
                "spec": {"replicas": 2, "selector": {"matchLabels": {"b": "2", "a": "1"}}},
                "status": {"readyReplicas": 1},
            },
            {"Ready": "1/2", "Up-to-date": 0},
            id="deployment",
        ),
        pytest.param(
            of("Job", "batch"),
            {
                "spec": {"completions": 1},
                "status": {"succeeded": 1, "startTime": BORN, "conditions": [{"type": "Complete", "status": "True"}]},
            },
            {"Status": "Complete", "Completions": "1/1"},
            id="job",
        ),
        pytest.param(
            of("CronJob", "batch"),
            {"spec": {"schedule": "@daily", "suspend": False}},
            {"Suspend": "False", "Active": 0, "Last Schedule": "<none>"},
            id="cron job",
        ),
        pytest.param(
            of("Service"),
            {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}},
            {"Cluster-IP": "<none>", "Port(s)": "80/TCP"},
            id="service",
        ),
        pytest.param(
            of("Node"),
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"Status": "Ready"},
            id="node",
        ),
        pytest.param(
            of("Event", "events.k8s.io"),
            {"regarding": {"kind": "Pod", "name": "p"}, "note": " m ", "eventTime": BORN, "reportingController": "c"},
            {"Last Seen": "24h", "Object": "pod/p", "Message": "m", "Source": "c", "Count": 1},
            id="event of the newer group",
        ),
        pytest.param(
            of("ClusterRole", "rbac.authorization.k8s.io"), {"rules": None}, {"Created At": BORN}, id="role by date"
        ),
    ],
)
def test_cells(kind: ResourceKind, obj: Object, cells: dict[str, Any]) -> None:
    row = shown(kind, obj)

    assert {name: row[name] for name in cells} == cells


RUNNING = {"ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "ready", "word"),
    [
        pytest.param({"phase": "Pending"}, "0/1", "Pending", id="pending"),
        pytest.param({"phase": "Running", "containerStatuses": [RUNNING]}, "1/1", "Running", id="running"),
        pytest.param(
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
            "0/1",
            "ErrImagePull",
            id="wait",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]},
            "0/1",
            "ExitCode:3",
            id="ended badly",
        ),
    ],
)
def test_one_word_for_a_pod(status: Object, ready: str, word: str) -> None:
    row = shown(of("Pod"), {"spec": {"containers": [{"name": "c"}]}, "status": status})

    assert (row["Ready"], row["Status"]) == (ready, word)


def test_a_pod_on_its_way_out_is_terminating() -> None:
    row = shown(of("Pod"), {"metadata": {"deletionTimestamp": BORN}, "status": {"phase": "Running"}})

    assert row["Status"] == "Terminating"


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        pytest.param("None", None, id="none"),
        pytest.param(
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "n"}},
            id="metadata",
        ),
        pytest.param("Object", {"metadata": {"name": "n"}, "data": {}}, id="object"),
    ],
)
def test_row_contains_the_requested_part_of_the_object(include: str, expected: Object | None) -> None:
    rendered = table(of("ConfigMap"), [{"metadata": {"name": "n"}, "data": {}}], now=NOW, include=include)

    assert rendered["rows"][0]["object"] == expected
    assert rendered["columnDefinitions"][0]["format"] == "name"


def test_unknown_include_object_value_is_refused() -> None:
    with pytest.raises(ApiError, match="must be 'Metadata', 'Object', 'None', or empty"):
        table(of("ConfigMap"), [], now=NOW, include="Everything")
