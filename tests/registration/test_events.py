"""What happens to a cluster and its credential is told as Events."""

from __future__ import annotations

from watchword.admin.deny import deny
from watchword.admin.hub_admin import HubAdmin
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import EVENTS, MANAGED_CLUSTERS
from watchword.testing.eventually import eventually_all
from watchword.testing.fleet import AUTOMATIC, FleetHarness


async def is_told(fleet: FleetHarness, name: str, *reasons: str) -> None:
    def all_told(events: dict[ObjectKey, Object]) -> bool:
        about = [event for event in events.values() if (event.get("regarding") or {}).get("name") == name]
        return set(reasons) <= {str(event["reason"]) for event in about}

    await eventually_all(fleet.client, EVENTS, all_told)


async def is_annotated(fleet: FleetHarness, name: str, annotation: str, value: str) -> None:
    patch = {"metadata": {"annotations": {annotation: value}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)


async def test_the_life_of_a_cluster_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    await is_told(fleet, name, "ManagedClusterAccepted")

    await is_annotated(fleet, name, Annotation.ROTATION_REQUEST, "now")
    await is_told(fleet, name, "CredentialRotated")

    await deny(HubAdmin(fleet.client, fleet.plane.clock), name)
    await is_told(fleet, name, "ManagedClusterDenied", "RightsRevoked")

    await fleet.remove(name)
    await is_told(fleet, name, "ManagedClusterRemoved")


async def test_a_name_that_passes_to_another_key_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    await is_told(fleet, name, "ManagedClusterAccepted")

    await is_annotated(fleet, name, Annotation.FIRST_KEY, f"agent-2 {'b' * 64} 2030-01-01T00:00:00Z")

    await is_told(fleet, name, "NameTakenOver")
