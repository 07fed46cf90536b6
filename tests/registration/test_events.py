"""What happens to a cluster and its credential is told as Events."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from watchword.admin.deny import deny
from watchword.admin.hub_admin import HubAdmin
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import EVENTS, MANAGED_CLUSTERS
from watchword.certificates.approval import APPROVED_REASON
from watchword.discovery.token_secret import TokenRecord
from watchword.discovery.token_store import TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.testing.eventually import eventually_all
from watchword.testing.fleet import AUTOMATIC, FleetHarness

HOUR = timedelta(hours=1)


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


async def test_every_decision_about_a_credential_is_an_audit_line(fleet: FleetHarness) -> None:
    name = fleet.name()
    with capture_logs() as lines:
        fleet.start_hub(AUTOMATIC)
        fleet.start_agent(name)
        await fleet.joined(name)
        await is_annotated(fleet, name, Annotation.ROTATION_REQUEST, "now")
        await is_told(fleet, name, "CredentialRotated")
        await deny(HubAdmin(fleet.client, fleet.plane.clock), name)
        await is_told(fleet, name, "ManagedClusterDenied", "RightsRevoked")

    decisions = [str(line["reason"]) for line in lines if line["event"] == "decision"]
    assert decisions.count(APPROVED_REASON) >= 2  # the join and the renewal
    assert {"ManagedClusterAccepted", "CredentialIssued", "CredentialRotated", "RightsRevoked"} <= set(decisions)


@pytest.mark.planes("embedded")  # in virtual time, to the expiry
async def test_join_token_that_expires_is_an_audit_line_without_its_secret(fleet: FleetHarness) -> None:
    token = BootstrapToken.generate()
    fleet.start_hub(AUTOMATIC)
    await TokenStore(fleet.client).create(TokenRecord(token, expires=fleet.plane.clock.now() + HOUR))

    with capture_logs() as lines:
        await asyncio.sleep(2 * HOUR.total_seconds())

    (line,) = [line for line in lines if line.get("reason") == "JoinTokenExpired"]
    assert token.id in line["note"]
    assert token.secret.reveal() not in str(lines)
