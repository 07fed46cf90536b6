"""What an agent reports of its cluster: sums that are right, and no more claims than allowed."""

from __future__ import annotations

import pytest

from watchword.api.meta import Object
from watchword.api.names import Label
from watchword.registration.agent.cluster_status import (
    ClaimPolicy,
    choose_claims,
    cluster_status_fields,
    sum_resources,
)


def a_node(*, unschedulable: bool = False, **resources: str) -> Object:
    return {
        "metadata": {"name": "n"},
        "spec": {"unschedulable": unschedulable},
        "status": {"capacity": resources, "allocatable": resources},
    }


def a_claim(name: str, value: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"value": value}}


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param(["two"], "0", id="what cannot be read counts as nothing"),
        pytest.param(["1500m", "0.5"], "2000m", id="thousandths and fractions"),
        pytest.param(["100m", "50m"], "150m", id="less than one"),
        pytest.param(["8Gi", "8Gi"], "16Gi", id="the unit of the first"),
        pytest.param(["1Gi", "1Mi"], "1074790400", id="no unit that keeps it whole"),
        pytest.param(["1e3", "1k"], "2000", id="powers of ten"),
    ],
)
def test_resources_of_nodes_are_added_up(amounts: list[str], expected: str) -> None:
    assert sum_resources([a_node(memory=amount) for amount in amounts], "capacity") == {"memory": expected}


def test_a_node_that_takes_no_pods_has_capacity_and_nothing_to_allocate() -> None:
    nodes = [a_node(cpu="4"), a_node(cpu="2", unschedulable=True)]

    status = cluster_status_fields("v1.35.0", nodes, [])

    assert (status["capacity"], status["allocatable"]) == ({"cpu": "6"}, {"cpu": "4"})
    assert status["version"] == {"kubernetes": "v1.35.0"}


def test_reserved_claims_come_first_and_custom_ones_are_counted() -> None:
    claims = [
        a_claim("b.example", "2"),
        a_claim("a.example", "1"),
        a_claim("id.k8s.io", "uid"),
        a_claim("size.reserved.example", "big"),
        a_claim("secret.example", "mine", **{Label.SPOKE_ONLY: ""}),
    ]

    chosen = choose_claims(claims, ClaimPolicy(max_custom=1, reserved_suffixes=("reserved.example",)))

    assert [claim["name"] for claim in chosen] == ["id.k8s.io", "size.reserved.example", "a.example"]
