"""The reviews that decide what a person sees, on the embedded control plane and on a real kube-apiserver."""

from __future__ import annotations

from tests.dashboard.harness import a_person, allow, open_dashboard, read
from tests.helpers.credential_fleet import CredentialFleet

from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.testing.plane import Plane

CLUSTER_GROUP = "cluster.open-cluster-management.io"


async def test_person_sees_what_subject_access_review_allows(private_plane: Plane) -> None:
    hub = CredentialFleet(private_plane.client(), private_plane.clock.now())
    await hub.install()
    await hub.everything()
    person, token = await a_person(private_plane, "owner")
    await allow(private_plane, person, read("managedclusters", CLUSTER_GROUP, "edge-1"))
    await allow(private_plane, person, read("secrets", ""), namespace="shop")

    async with open_dashboard(private_plane, login=True) as dashboard:
        await dashboard.sign_in(token)
        clusters, kinds = await dashboard.names("cluster"), await dashboard.names("credential")

    assert clusters == {"edge-1"}
    assert kinds == {"cluster certificate", "hub authority", "pull secret"}


async def test_token_of_a_deleted_account_does_not_sign_in(private_plane: Plane) -> None:
    await CredentialFleet(private_plane.client(), private_plane.clock.now()).install()
    person, token = await a_person(private_plane, "gone")
    await private_plane.client().delete(SERVICE_ACCOUNTS, person)

    async with open_dashboard(private_plane, login=True) as dashboard:
        refused = await dashboard.sign_in(token)

    assert refused.header("Location") == "/login#refused"
