"""What happens to a cluster and its credential is told as Events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.helpers.events import is_told
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.admin.accept import ClusterAcceptor, HubAdmin, deny, deny_request
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, EVENTS, MANAGED_CLUSTERS
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.credentials.certificates.requests import APPROVED_REASON
from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.testing.eventually import eventually_all

HOUR = timedelta(hours=1)
LIFE = {
    APPROVED_REASON,
    "ManagedClusterAccepted",
    "CredentialIssued",
    "RotationRequested",
    "CredentialRotated",
    "NameTakenOver",
    "ManagedClusterDenied",
    "RightsRevoked",
    "ManagedClusterRemoved",
    "JoinTokenCreated",
    "JoinTokenDeleted",
}


async def is_annotated(fleet: FleetHarness, name: str, annotation: str, value: str) -> None:
    patch = {"metadata": {"annotations": {annotation: value}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)


async def test_the_life_of_a_cluster_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    await is_told(fleet.client, name, "ManagedClusterAccepted", "CredentialIssued")

    await is_annotated(fleet, name, Annotation.ROTATION_REQUEST, "now")
    await is_told(fleet.client, name, "RotationRequested", "CredentialRotated")

    await deny(HubAdmin(fleet.client, fleet.plane.clock), name)
    await is_told(fleet.client, name, "ManagedClusterDenied", "RightsRevoked")

    await fleet.remove(name)
    await is_told(fleet.client, name, "ManagedClusterRemoved")


async def test_a_name_that_passes_to_another_key_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    await is_told(fleet.client, name, "ManagedClusterAccepted")

    await is_annotated(fleet, name, Annotation.FIRST_KEY, f"agent-2 {'b' * 64} 2030-01-01T00:00:00Z")

    await is_told(fleet.client, name, "NameTakenOver")


async def test_what_an_administrator_decides_about_a_request_is_told(fleet: FleetHarness) -> None:
    accepted, refused = fleet.name(), fleet.name()
    administrator = HubAdmin(fleet.client, fleet.plane.clock)
    fleet.start_hub()
    for name in (accepted, refused):
        fleet.start_agent(name)
    first, second = await request_of(fleet, accepted), await request_of(fleet, refused)

    await ClusterAcceptor(administrator, ApprovalTerms()).accept(accepted)
    await deny_request(administrator, second)

    await is_told(fleet.client, first, "CSRApproved")
    await is_told(fleet.client, second, "CSRDenied")
    await is_told(fleet.client, accepted, "ManagedClusterAccepted", "CredentialIssued")


async def test_every_decision_about_a_credential_is_an_audit_line_and_an_event(fleet: FleetHarness) -> None:
    name, token = fleet.name(), BootstrapToken.generate()
    tokens = TokenStore(fleet.client)
    with capture_logs() as lines:
        fleet.start_hub(AUTOMATIC)
        await tokens.create(TokenRecord(token, expires=fleet.plane.clock.now() + HOUR))
        fleet.start_agent(name)
        await fleet.joined(name)
        await is_annotated(fleet, name, Annotation.ROTATION_REQUEST, "now")
        await is_told(fleet.client, name, "CredentialRotated")
        await is_annotated(fleet, name, Annotation.FIRST_KEY, f"agent-2 {'b' * 64} 2030-01-01T00:00:00Z")
        await deny(HubAdmin(fleet.client, fleet.plane.clock), name)
        await is_told(fleet.client, name, "ManagedClusterDenied", "RightsRevoked")
        await fleet.remove(name)
        await is_told(fleet.client, name, "ManagedClusterRemoved")
        await tokens.delete(token.id)
        await is_told(fleet.client, f"bootstrap-token-{token.id}", "JoinTokenCreated", "JoinTokenDeleted")

    decisions = [line for line in lines if line["event"] == "decision"]
    reasons = [str(line["reason"]) for line in decisions]
    assert set(reasons) >= LIFE
    assert reasons.count(APPROVED_REASON) >= 2  # the join and the renewal
    assert token.secret.reveal() not in str(lines)
    await has_an_event_for_each(fleet, decisions)


async def has_an_event_for_each(fleet: FleetHarness, decisions: Sequence[Mapping[str, Any]]) -> None:
    wanted = {(line["reason"], line["object_kind"], line["object"], line["note"]) for line in decisions}

    def all_told(events: dict[ObjectKey, Object]) -> bool:
        return wanted <= {
            (
                event["reason"],
                event["regarding"]["kind"],
                str(ObjectKey(event["regarding"].get("namespace", ""), event["regarding"]["name"])),
                event["note"],
            )
            for event in events.values()
            if event.get("regarding")
        }

    await eventually_all(fleet.client, EVENTS, all_told)


async def request_of(fleet: FleetHarness, name: str) -> str:
    """Wait for the request of a cluster, and return its name."""

    def of_cluster(found: dict[ObjectKey, Object]) -> list[str]:
        return [key.name for key, csr in found.items() if labels_of(csr).get(Label.CLUSTER_NAME) == name]

    found = await eventually_all(fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda rows: bool(of_cluster(rows)))
    return of_cluster(found)[0]


@pytest.mark.planes("embedded")  # in virtual time, to the expiry
async def test_join_token_that_expires_is_told_without_its_secret(fleet: FleetHarness) -> None:
    token = BootstrapToken.generate()
    fleet.start_hub(AUTOMATIC)
    await TokenStore(fleet.client).create(TokenRecord(token, expires=fleet.plane.clock.now() + HOUR))

    with capture_logs() as lines:
        await asyncio.sleep(1.5 * HOUR.total_seconds())  # its Event is there for an hour

    await is_told(fleet.client, f"bootstrap-token-{token.id}", "JoinTokenExpired")
    (line,) = [line for line in lines if line.get("reason") == "JoinTokenExpired"]
    assert token.id in line["note"]
    assert token.secret.reveal() not in str(lines)
