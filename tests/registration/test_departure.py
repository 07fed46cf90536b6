"""A cluster leaves by its own side or is denied by the hub's: the one is cleaned up, the other stays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, transport_with

from watchword.admin.accept import HubAdmin, deny
from watchword.api.cluster import Cluster
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, EVENTS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339_micro
from watchword.credentials.credential_secret import decode_data
from watchword.health.hub_reader import read_hub_facts
from watchword.health.inventory import build_inventory
from watchword.kube.client import Client
from watchword.registration.agent.membership import is_current_request, withdraw_acceptance
from watchword.registration.hub.cluster_removal import RETENTION, ClusterCleanup
from watchword.testing.eventually import eventually, eventually_all

MINUTE = timedelta(minutes=1)


async def is_member(fleet: FleetHarness) -> str:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    return name


async def leaves(fleet: FleetHarness, name: str) -> None:
    """Take the cluster out as its own side does, with its own credential."""
    data = decode_data(await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))
    own = fleet.plane.adopt(Client(transport_with(fleet.plane, data["tls.crt"], data["tls.key"])))
    assert await withdraw_acceptance(own, name, fleet.plane.clock)


async def test_agent_takes_its_cluster_out_when_the_secret_asks_for_it(fleet: FleetHarness) -> None:
    name = await is_member(fleet)
    secret = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")

    asked = rfc3339_micro(fleet.plane.clock.now())

    await fleet.client.patch(SECRETS, secret, {"metadata": {"annotations": {Annotation.LEAVE_REQUEST: asked}}})

    await eventually(
        fleet.client, SECRETS, secret, lambda found: annotations_of(found or {}).get(Annotation.LEFT_ON) == asked
    )
    left = await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False")
    assert annotations_of(left)[Annotation.LEFT_ON]


@pytest.mark.parametrize(
    ("asked", "current"),
    [
        pytest.param("", False, id="no request"),
        pytest.param("soon", False, id="no instant"),
        pytest.param("2026-01-01T12:00:00.000001Z", True, id="now"),
        pytest.param("2026-01-01T11:58:30Z", True, id="while `unjoin` may wait"),
        pytest.param("2026-01-01T11:57:00Z", False, id="left by an interrupted `unjoin`"),
        pytest.param("2026-01-01T12:05:00Z", False, id="by another clock"),
    ],
)
def test_request_to_leave_is_current(asked: str, *, current: bool) -> None:
    assert is_current_request(asked, now=datetime(2026, 1, 1, 12, tzinfo=UTC)) is current


@pytest.mark.planes("embedded")
async def test_agent_that_starts_after_an_interrupted_unjoin_stays(fleet: FleetHarness) -> None:
    name = await is_member(fleet)
    secret = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    asked = rfc3339_micro(fleet.plane.clock.now() - timedelta(minutes=5))

    await fleet.client.patch(SECRETS, secret, {"metadata": {"annotations": {Annotation.LEAVE_REQUEST: asked}}})
    await asyncio.sleep(600)

    assert Cluster.read(await the_cluster(fleet, name)).accepted
    assert Annotation.LEFT_ON not in annotations_of(await fleet.client.get(SECRETS, secret))


async def is_denied(fleet: FleetHarness, name: str) -> None:
    await deny(HubAdmin(fleet.client, fleet.plane.clock), name)
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")


async def would_delete(fleet: FleetHarness, retention: timedelta) -> list[str]:
    return await ClusterCleanup(fleet.client, fleet.plane.clock, retention, dry_run=True).run()


async def test_a_denied_cluster_is_never_deleted(fleet: FleetHarness) -> None:
    name = await is_member(fleet)

    await is_denied(fleet, name)

    assert name not in await would_delete(fleet, timedelta(0))
    assert find_condition(await the_cluster(fleet, name), ConditionType.CLEANUP_SCHEDULED) is None


async def the_cluster(fleet: FleetHarness, name: str) -> Object:
    return await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))


async def test_the_deletion_of_a_cluster_that_left_is_announced_and_takes_its_time(fleet: FleetHarness) -> None:
    name = await is_member(fleet)

    await leaves(fleet, name)

    found = await fleet.condition(name, ConditionType.CLEANUP_SCHEDULED, "True", "ManagedClusterLeft")
    said = find_condition(found, ConditionType.CLEANUP_SCHEDULED)
    assert said is not None
    assert "24h" in said.message
    await eventually_all(fleet.client, EVENTS, lambda events: any(tells_of(name, event) for event in events.values()))
    assert name not in await would_delete(fleet, RETENTION)
    assert name in await would_delete(fleet, timedelta(0))


def tells_of(name: str, event: Object) -> bool:
    return event.get("reason") == "ManagedClusterLeft" and (event.get("regarding") or {}).get("name") == name


async def test_a_cluster_that_left_is_kept_once_it_is_accepted_again(fleet: FleetHarness) -> None:
    name = await is_member(fleet)
    await leaves(fleet, name)
    await fleet.condition(name, ConditionType.CLEANUP_SCHEDULED, "True")

    await fleet.accept(name)

    await eventually(fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), has_no_trace_of_leaving)
    await is_denied(fleet, name)
    assert name not in await would_delete(fleet, timedelta(0))


def has_no_trace_of_leaving(cluster: Object | None) -> bool:
    assert cluster is not None
    announced = find_condition(cluster, ConditionType.CLEANUP_SCHEDULED)
    return announced is None and Annotation.LEFT_ON not in annotations_of(cluster)


async def test_a_cluster_that_left_is_kept_once_an_administrator_denies_it(fleet: FleetHarness) -> None:
    name = await is_member(fleet)
    await leaves(fleet, name)
    await fleet.condition(name, ConditionType.CLEANUP_SCHEDULED, "True")

    await deny(HubAdmin(fleet.client, fleet.plane.clock), name)

    assert name not in await would_delete(fleet, timedelta(0))


async def requests_of(fleet: FleetHarness, name: str) -> int:
    listed = await fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")
    return len(listed.items)


async def test_a_cluster_denied_before_it_was_accepted_stays_denied(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub()
    fleet.start_agent(name)
    await eventually_all(fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda found: any(name in k.name for k in found))

    await is_denied(fleet, name)

    inventory = build_inventory(await read_hub_facts(fleet.client), now=fleet.plane.clock.now())
    (row,) = [row for row in inventory.clusters if row.name == name]
    assert (row.accepted, row.health.needs_attention) == ("denied", False)
    assert "accept" not in row.note


async def test_a_denied_cluster_is_not_accepted_by_the_allow_list(fleet: FleetHarness) -> None:
    name = fleet.name()
    hub = fleet.start_hub()
    fleet.start_agent(name)
    await eventually_all(fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda found: any(name in k.name for k in found))
    await is_denied(fleet, name)
    await fleet.stop(hub)

    fleet.tasks.remove(hub)
    fleet.start_hub(AUTOMATIC)
    other = fleet.name()
    fleet.start_agent(other)
    await fleet.joined(other)

    assert (await the_cluster(fleet, name))["spec"]["hubAcceptsClient"] is False


@pytest.mark.planes("embedded")  # minutes of virtual time
async def test_the_agent_of_a_denied_cluster_asks_again_only_every_few_minutes(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub()
    fleet.start_agent(name)
    await eventually_all(fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda found: any(name in k.name for k in found))
    hub_admin = HubAdmin(fleet.client, fleet.plane.clock)
    await deny(hub_admin, name)

    for _ in range(10):
        await asyncio.sleep(MINUTE.total_seconds())
        await deny(hub_admin, name)

    assert await requests_of(fleet, name) <= 6


@pytest.mark.planes("embedded")  # minutes of virtual time
async def test_the_availability_of_a_denied_cluster_is_unknown_once_its_lease_ends(fleet: FleetHarness) -> None:
    name = await is_member(fleet)
    await fleet.condition(name, ConditionType.AVAILABLE, "True")

    await is_denied(fleet, name)
    await asyncio.sleep(6 * MINUTE.total_seconds())

    await fleet.condition(name, ConditionType.AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped")
