"""When silence counts, and when it is only a wrong clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition
from watchword.api.meta import Object
from watchword.api.time import rfc3339_micro
from watchword.registration.hub.cluster_lease import LeaseObservation, decide_lease_conditions

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def a_cluster(*conditions: Object, **annotations: str) -> Cluster:
    obj: Object = {
        "metadata": {"name": "edge-1", "uid": "u", "annotations": annotations},
        "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60},
        "status": {"conditions": list(conditions)},
    }
    return Cluster.read(obj)


def said(type_: str, status: str) -> Object:
    return {"type": type_, "status": status, "reason": "Said", "message": ""}


JOINED = said("ManagedClusterJoined", "True")


def seen(renewed: timedelta | None, ago: timedelta, *, live: bool = True) -> LeaseObservation:
    text = "" if renewed is None else rfc3339_micro(NOW + renewed)
    return LeaseObservation(text, NOW - ago, live=live)


def reasons(conditions: tuple[Condition, ...]) -> list[str]:
    return [condition.reason for condition in conditions]


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(seen(None, MINUTE * 60), [], id="an agent that never came is not missed"),
        pytest.param(
            seen(-5 * MINUTE, 5 * MINUTE), ["ManagedClusterLeaseUpdateStopped"], id="patience exhausted to the second"
        ),
        pytest.param(
            seen(-60 * MINUTE, timedelta(0), live=False),
            ["ManagedClusterLeaseUpdateStopped"],
            id="stale when the hub started: silent already",
        ),
        pytest.param(seen(-4 * MINUTE, 4 * MINUTE), [], id="late but within patience"),
    ],
)
def test_silence_is_reported_after_the_timeout(observed: LeaseObservation, expected: list[str]) -> None:
    decision = decide_lease_conditions(a_cluster(), observed, now=NOW)
    silence = [reason for reason in reasons(decision.conditions) if "Lease" in reason]
    assert silence == expected


@pytest.mark.parametrize(
    ("skew", "expected"),
    [
        pytest.param(-60 * MINUTE, "ManagedClusterClockOutOfSync", id="an hour behind"),
        pytest.param(60 * MINUTE, "ManagedClusterClockOutOfSync", id="an hour ahead"),
        pytest.param(-4 * MINUTE, "ManagedClusterClockSynced", id="four minutes are tolerated"),
    ],
)
def test_a_wrong_clock_is_named_and_is_not_taken_for_silence(skew: timedelta, expected: str) -> None:
    decision = decide_lease_conditions(a_cluster(JOINED), seen(skew, timedelta(0)), now=NOW)
    assert reasons(decision.conditions) == [expected]


@pytest.mark.parametrize(
    ("skew", "before", "expected"),
    [
        pytest.param(timedelta(0), (), [], id="clocks that agree can wait: the agent writes the same list now"),
        pytest.param(60 * MINUTE, (), ["ManagedClusterClockOutOfSync"], id="clocks that disagree cannot"),
        pytest.param(
            timedelta(0),
            (said("ManagedClusterConditionClockSynced", "False"),),
            ["ManagedClusterClockSynced"],
            id="a clock set right is said at once: the agent waits for it",
        ),
    ],
)
def test_before_a_cluster_has_joined_only_what_matters_is_written(
    skew: timedelta, before: tuple[Object, ...], expected: list[str]
) -> None:
    decision = decide_lease_conditions(a_cluster(*before), seen(skew, timedelta(0)), now=NOW)
    assert reasons(decision.conditions) == expected


def test_the_clock_check_can_be_switched_off() -> None:
    cluster = a_cluster(**{"registration.open-cluster-management.io/skip-clock-sync-check": "true"})
    assert decide_lease_conditions(cluster, seen(60 * MINUTE, timedelta(0)), now=NOW).conditions == ()


def test_next_check_is_at_the_end_of_the_grace_period() -> None:
    decision = decide_lease_conditions(a_cluster(), seen(-MINUTE, MINUTE), now=NOW)
    assert decision.recheck_in == 4 * MINUTE


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(seen(-5 * MINUTE, 5 * MINUTE), ["ManagedClusterLeaseUpdateStopped"], id="its agent went silent"),
        pytest.param(seen(None, 5 * MINUTE), ["ManagedClusterLeaseUpdateStopped"], id="its lease is gone for long"),
        pytest.param(seen(None, MINUTE), [], id="its lease is just gone"),
    ],
)
def test_availability_of_a_deleted_cluster_is_still_decided(observed: LeaseObservation, expected: list[str]) -> None:
    metadata = {"name": "edge-1", "uid": "u", "deletionTimestamp": rfc3339_micro(NOW)}
    deleted = Cluster.read({"metadata": metadata, "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60}})
    decision = decide_lease_conditions(deleted, observed, now=NOW)
    assert [reason for reason in reasons(decision.conditions) if "Lease" in reason] == expected
