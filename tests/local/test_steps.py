"""Each step of bringing up a fleet knows what it waits for, also after a crash in the middle of the one before."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest

from watchword.admin.errors import InvalidInput
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, LEASES, MANAGED_CLUSTERS
from watchword.api.time import rfc3339_micro
from watchword.local.pods import parse_flags
from watchword.local.steps import choose_steps, is_decided, is_ready_for_decision, is_settled
from watchword.local.trials import require_libraries

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def a_cluster(*, accepted: bool = False, **conditions: str) -> Object:
    rows = [{"type": type_, "status": status} for type_, status in conditions.items()]
    spec = {"hubAcceptsClient": accepted}
    return MANAGED_CLUSTERS.manifest(ObjectKey.cluster("edge"), spec=spec, status={"conditions": rows})


def a_request(cluster: str, *conditions: str) -> Object:
    return CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster(f"{cluster}-1"),
        metadata={"labels": {Label.CLUSTER_NAME: cluster}},
        status={"conditions": [{"type": type_, "status": "True"} for type_ in conditions]},
    )


@pytest.mark.parametrize(
    ("cluster", "requests", "expected"),
    [
        pytest.param(None, [a_request("edge")], False, id="has no ManagedCluster"),
        pytest.param(a_cluster(), [], False, id="has not asked yet"),
        pytest.param(a_cluster(), [a_request("other")], False, id="another cluster has asked"),
        pytest.param(a_cluster(), [a_request("edge")], True, id="has asked"),
        pytest.param(a_cluster(), [a_request("edge", "Approved")], True, id="killed between approval and acceptance"),
        pytest.param(a_cluster(accepted=True), [], True, id="accepted in an earlier life"),
        pytest.param(a_cluster(HubAcceptedManagedCluster="False"), [], True, id="denied in an earlier life"),
    ],
)
def test_can_be_decided(cluster: Object | None, requests: list[Object], *, expected: bool) -> None:
    assert is_ready_for_decision(cluster, requests) is expected


def test_a_hub_alone_takes_no_steps_of_clusters() -> None:
    assert [step.key for step in choose_steps(0)] == ["planes", "hub", "token"]
    of_clusters = ["discovery", "join", "acceptance", "members", "add-on", "account", "pull-secret"]
    assert [step.key for step in choose_steps(1)][3:] == of_clusters


def test_a_denial_stands_after_a_restart() -> None:
    assert is_decided(a_cluster(HubAcceptedManagedCluster="False"))


WELL = {ConditionType.JOINED: "True", ConditionType.AVAILABLE: "True", ConditionType.CERTIFICATE_ROTATED: "True"}


@pytest.mark.parametrize(
    ("cluster", "heard", "expected"),
    [
        pytest.param(None, timedelta(seconds=1), False, id="not there"),
        pytest.param(a_cluster(accepted=True), timedelta(seconds=1), False, id="not joined"),
        pytest.param(a_cluster(accepted=True, **WELL), timedelta(seconds=-1), False, id="well before the restart"),
        pytest.param(a_cluster(accepted=True, **WELL), timedelta(seconds=1), True, id="well, and heard since"),
        pytest.param(a_cluster(HubAcceptedManagedCluster="False"), timedelta(seconds=-1), True, id="denied"),
    ],
)
def test_is_settled(cluster: Object | None, heard: timedelta, *, expected: bool) -> None:
    lease = LEASES.manifest(ObjectKey("edge", "lease"), spec={"renewTime": rfc3339_micro(SINCE + heard)})

    assert is_settled(cluster, lease, SINCE) is expected


def test_rendered_flags_are_read_back() -> None:
    assert parse_flags(["operator", "--namespace=a", "--image=b=c"]) == {"namespace": "a", "image": "b=c"}


def test_a_driver_whose_library_is_missing_is_refused_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_libraries("grpc")
    monkeypatch.setitem(sys.modules, "grpclib", None)  # as where the extra is not installed

    with pytest.raises(InvalidInput, match=r"pip install 'watchword\[grpc\]'"):
        require_libraries("grpc")
