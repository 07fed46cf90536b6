"""Each person sees exactly what the API server lets them read."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from tests.dashboard.harness import DashboardHarness, a_person, a_request, allow, open_dashboard, read
from tests.helpers.credential_fleet import CredentialFleet
from tests.helpers.server_decision import grant

from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import ObjectKey
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTERS,
)
from watchword.dashboard.sources import DASHBOARD_SOURCES, PROBE_EVERY
from watchword.kube.access_reviews import UserIdentity, may
from watchword.runtime.manifests import establish_crds
from watchword.testing.plane import Plane

CLUSTER_GROUP = "cluster.open-cluster-management.io"
ADDON_GROUP = "addon.open-cluster-management.io"
KINDS = {"account token", "add-on token", "cluster certificate", "hub authority", "join token", "pull secret"}
PUBLIC = "hub authority"  # cluster-info is readable for everyone who can sign in
NAMES = {source.name for source in DASHBOARD_SOURCES}

pytestmark = pytest.mark.planes("embedded")  # the fleet is everything that the hub holds


async def test_every_kind_of_credential_is_shown(hub: CredentialFleet, dashboard: DashboardHarness) -> None:
    await hub.everything()
    await dashboard.open_address()

    board = await dashboard.board()

    assert {row["kind"] for row in board["put"].values() if row["table"] == "credential"} == KINDS
    assert board["unseen"] == {}


async def test_administrator_who_signs_in_sees_everything(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.everything()
    person, token = await a_person(plane, "admin")
    await allow(plane, person, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})

    await login_dashboard.sign_in(token)

    assert await login_dashboard.names("credential") == KINDS
    assert (await login_dashboard.board())["viewer"]["name"] == f"system:serviceaccount:{person.namespace}:admin"


async def test_person_without_rights_sees_nothing_and_is_told_so(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.everything()
    _, token = await a_person(plane, "guest")

    await login_dashboard.sign_in(token)
    board = await login_dashboard.board()

    assert {row["kind"] for row in board["put"].values()} == {PUBLIC}
    assert board["events"] == []
    assert set(board["unseen"]) == NAMES - {"the hub's authority"}
    assert (await login_dashboard.get("/api/clusters/edge-1")).status == 404


async def test_right_on_one_cluster_shows_that_cluster_alone(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.everything()
    person, token = await a_person(plane, "owner")
    await allow(plane, person, read("managedclusters", CLUSTER_GROUP, "edge-1"))
    await allow(plane, person, read("managedclusteraddons", ADDON_GROUP), namespace="edge-1")

    await login_dashboard.sign_in(token)

    assert await login_dashboard.names("cluster") == {"edge-1"}
    assert [(row["cluster"], row["name"]) for row in await login_dashboard.rows("add-on")] == [("edge-1", "sample")]
    assert await login_dashboard.names("credential") == {PUBLIC, "cluster certificate", "add-on token"}
    assert (await login_dashboard.get("/api/clusters/edge-1")).status == 200
    assert (await login_dashboard.get("/api/clusters/edge-2")).status == 404


async def test_right_to_list_clusters_shows_no_secrets_of_the_hub(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.everything()
    person, token = await a_person(plane, "viewer")
    await allow(plane, person, read("managedclusters", CLUSTER_GROUP))

    await login_dashboard.sign_in(token)

    assert len(await login_dashboard.rows("cluster")) == 9
    assert await login_dashboard.names("credential") == {PUBLIC, "cluster certificate"}


async def test_right_that_is_granted_later_is_noticed_within_a_minute(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.cluster("edge-1")
    person, token = await a_person(plane, "late")
    await login_dashboard.sign_in(token)

    async with login_dashboard.live() as live:
        before = await live.board()
        await allow(plane, person, read("managedclusters", CLUSTER_GROUP))
        _, after = await live.change()

    assert "cluster/edge-1" not in before["put"]
    assert "cluster/edge-1" in after["put"]


async def test_right_that_is_taken_away_hides_the_rows_within_a_minute(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.cluster("edge-1")
    person, token = await a_person(plane, "late")
    rule, user = plane.unique("viewer"), f"system:serviceaccount:{person.namespace}:late"
    await grant(plane.client(), ObjectKey.cluster(rule), [read("managedclusters", CLUSTER_GROUP)], user)
    await login_dashboard.sign_in(token)

    async with login_dashboard.live() as live:
        await live.board()
        await plane.client().delete(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(rule))
        _, after = await live.change()

    assert "cluster/edge-1" in after["gone"]


async def test_history_tells_of_requests_only_those_who_may_list_them(
    plane: Plane, hub: CredentialFleet, login_dashboard: DashboardHarness
) -> None:
    await hub.cluster("edge-1")
    await asyncio.sleep(1)
    await hub.client.create(CERTIFICATE_SIGNING_REQUESTS, a_request("edge-1"))
    await asyncio.sleep(1)
    told = {}
    for name, rule in {"viewer": ("managedclusters", CLUSTER_GROUP), "auditor": ("*", "*")}.items():
        person, token = await a_person(plane, name)
        await allow(plane, person, read(*rule))
        await login_dashboard.sign_in(token)
        page = orjson.loads((await login_dashboard.get("/api/clusters/edge-1")).body)
        told[name] = [row["what"] for row in page["history"]]

    assert told["viewer"] == []
    assert any("another key asks for its name" in what for what in told["auditor"])


async def test_kubeconfig_with_few_rights_shows_what_it_may_and_names_the_rest(
    plane: Plane, hub: CredentialFleet
) -> None:
    await hub.everything()
    await grant(plane.client(), ObjectKey.cluster("some"), [read("managedclusters", CLUSTER_GROUP)], "viewer")

    async with open_dashboard(plane, plane.client("viewer")) as dashboard:
        await dashboard.open_address()
        board = await dashboard.board()

    assert {row["table"] for row in board["put"].values()} == {"cluster", "credential"}
    assert set(board["unseen"]) == NAMES - {"clusters"}


async def test_kind_that_is_installed_later_is_followed(plane: Plane, hub: CredentialFleet) -> None:
    await hub.cluster("edge-1")
    for definition in ACCOUNT_CRDS:
        await plane.client().delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition))

    async with open_dashboard(plane) as dashboard:
        await dashboard.open_address()
        assert "account token" not in await dashboard.names("credential")
        await establish_crds(plane.client(), ACCOUNT_CRDS, manager="tests")
        await hub.account("edge-1")
        await asyncio.sleep(2 * PROBE_EVERY)

        assert "account token" in await dashboard.names("credential")


async def test_review_passes_on_what_limits_a_token_further(plane: Plane) -> None:
    scoped = UserIdentity("alice", extra=(("scopes.example/only", ("nothing",)),))

    assert await may(plane.client(), scoped, DASHBOARD_SOURCES[0].access()) is False


def test_right_on_one_cluster_is_asked_by_its_name() -> None:
    source = next(each for each in DASHBOARD_SOURCES if each.resource is MANAGED_CLUSTERS)

    assert source.access("edge-1").attributes()["name"] == "edge-1"
    assert source.access().attributes()["verb"] == "list"
