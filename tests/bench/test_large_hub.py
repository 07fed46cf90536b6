"""What is read and printed in a run with a large fleet."""

from __future__ import annotations

import math

import pytest

from bench.large_hub.addons import addon_names, driver_of
from bench.large_hub.clones import copy_cluster, group_by_cluster, shared_uids
from bench.large_hub.figures import Figure, Spread, table
from bench.large_hub.hub_metrics import is_leading, keys_left

METRICS = """# HELP watchword_queue_keys Keys by what they wait for
watchword_queue_keys{controller="cluster-lease",state="ready"} 3.0
watchword_queue_keys{controller="cluster-lease",state="in_flight"} 1.0
watchword_queue_keys{controller="cluster-lease",state="delayed"} 300.0
watchword_leading 1.0
"""


def test_delayed_keys_are_not_left_to_reconcile() -> None:
    assert keys_left(METRICS) == 4


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        pytest.param(METRICS, True, id="leads"),
        pytest.param("watchword_leading 0.0\n", False, id="waits for the lease"),
        pytest.param("", False, id="does not answer"),
    ],
)
def test_is_leading(metrics: str, expected: bool) -> None:  # noqa: FBT001 - a table
    assert is_leading(metrics) is expected


def test_slowest_hundredth_of_two_hundred_durations_is_the_198th() -> None:
    spread = Spread.of([float(number) for number in range(200, 0, -1)])

    assert spread == Spread(100.0, 198.0)


def test_spread_of_nothing_is_not_a_number() -> None:
    assert math.isnan(Spread.of([]).p99)


def test_figure_above_its_goal_is_not_met() -> None:
    figures = [Figure("join, p99", 6.0, "s", goal=5.0), Figure("requests", 40.25, "")]

    assert table(figures).splitlines()[-2:] == ["| join, p99 | 6 s | ≤ 5 s | no |", "| requests | 40.2 |  |  |"]


def test_add_ons_register_by_both_drivers() -> None:
    assert [driver_of(name) for name in addon_names(3)] == ["csr", "token", "csr"]


OWN, OF_ALL = b"0a1b2c3d-0000-1111-2222-333344445555", b"99999999-8888-7777-6666-555544443333"


def entries_of(name: bytes, uid: bytes) -> dict[bytes, bytes]:
    value = b'{"name":"' + name + b'","uid":"' + uid + b'","owner":"' + OF_ALL + b'"}'
    return {b"/registry/leases/" + name + b"/lease": value, b"/registry/events/default/" + name + b".1": b"{}"}


def test_copy_of_a_cluster_has_its_own_name_and_uids_and_the_owners_of_all() -> None:
    first, second = entries_of(b"c00000", OWN), entries_of(b"c00001", b"1" + OWN[1:])
    groups = group_by_cluster({**first, **second, b"/registry/secrets/x": OF_ALL})

    [(key, value)] = copy_cluster(groups[b"c00000"], b"c00000", b"c00002", shared_uids(groups)).items()

    assert key == b"/registry/leases/c00002/lease"
    assert len(value) == len(groups[b"c00000"][b"/registry/leases/c00000/lease"])
    assert b'"name":"c00002"' in value
    assert OF_ALL in value
    assert OWN not in value
