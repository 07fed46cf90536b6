"""The figures of the small hub are correct."""

from __future__ import annotations

import orjson

from bench.small_hub.fleet import renewal, report
from bench.small_hub.probe import Latency, latency_of
from watchword.api.conditions import is_true
from watchword.api.names import ConditionType
from watchword.apiserver.serving.patch import apply_json_patch


def test_latency_names_the_middle_the_slowest_hundredth_and_the_slowest() -> None:
    assert latency_of([number / 1000 for number in range(1, 201)]) == Latency(0.101, 0.199, 0.2, 200)


def test_one_sample_is_its_own_distribution() -> None:
    assert latency_of([0.5]) == Latency(0.5, 0.5, 0.5, 1)


def test_report_keeps_the_conditions_of_the_hub() -> None:
    _, path, _, body = report("edge-1")
    cluster = {"status": {"conditions": [{"type": ConditionType.HUB_ACCEPTED, "status": "True"}]}}

    patched = apply_json_patch(cluster, orjson.loads(body))

    assert path.partition("?")[0].endswith("/managedclusters/edge-1/status")
    wanted = (ConditionType.HUB_ACCEPTED, ConditionType.JOINED, ConditionType.AVAILABLE)
    assert all(is_true(patched, condition) for condition in wanted)


def test_renewal_changes_the_time_alone() -> None:
    _, path, _, body = renewal("edge-1")

    assert path.partition("?")[0].endswith("/namespaces/edge-1/leases/managed-cluster-lease")
    assert list(orjson.loads(body)["spec"]) == ["renewTime"]
