"""What a browser is sent: everything once, then what changes, and never a secret."""

from __future__ import annotations

import asyncio
import base64

import orjson
import pytest
from tests.dashboard.harness import DashboardHarness, a_request
from tests.helpers.credential_fleet import HOUR, CredentialFleet, a_condition

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.kube.client import Client

pytestmark = pytest.mark.planes("embedded")  # the fleet is everything that the hub holds


async def set_conditions(client: Client, name: str, *rows: dict[str, str]) -> None:
    cluster = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    kept = {row["type"]: row for row in cluster["status"]["conditions"]}
    changed = {row["type"]: {**row, "lastTransitionTime": "2026-01-01T00:00:00Z"} for row in rows}
    status = {**cluster["status"], "conditions": list({**kept, **changed}.values())}
    await client.update(MANAGED_CLUSTERS, {**cluster, "status": status}, subresource="status")


async def test_stream_sends_everything_and_then_only_what_changed(
    hub: CredentialFleet, dashboard: DashboardHarness
) -> None:
    await hub.everything()
    await asyncio.sleep(1)
    await dashboard.open_address()

    async with dashboard.live() as live:
        board = await live.board()
        silent = a_condition(ConditionType.AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", "silent")
        await set_conditions(hub.client, "edge-1", silent)
        update, change = await live.change()

    assert update == "update"
    assert set(board["put"]) > set(change["put"]) == {"cluster/edge-1"}
    assert change["put"]["cluster/edge-1"]["note"] == "silent"


async def test_deleted_cluster_disappears(hub: CredentialFleet, dashboard: DashboardHarness) -> None:
    await hub.cluster("edge-1")
    await asyncio.sleep(1)
    await dashboard.open_address()

    async with dashboard.live() as live:
        await live.board()
        await hub.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster("edge-1"))
        _, change = await live.change()

    assert "cluster/edge-1" in change["gone"]


async def test_health_changes_with_the_time_alone(hub: CredentialFleet, dashboard: DashboardHarness) -> None:
    await hub.cluster("edge-1", age=18 * HOUR)
    await asyncio.sleep(1)
    await dashboard.open_address()
    (before,) = [row for row in await dashboard.rows("credential") if row["cluster"]]

    await asyncio.sleep(7 * 3600)
    (after,) = [row for row in await dashboard.rows("credential") if row["cluster"]]

    assert (before["health"], after["health"]) == (8, 0)
    assert after["command"] == "watchword token create --for-cluster edge-1 --print-join-command"


@pytest.mark.plants_secrets
async def test_no_secret_reaches_the_browser(hub: CredentialFleet, dashboard: DashboardHarness) -> None:
    token = await hub.join_token()
    pull = await hub.pull_secret("shop")
    await hub.cluster("edge-1", available="False", said=f"login failed with Bearer {pull}")
    await hub.event("edge-1", f"the token {token.reveal()} was refused")
    await dashboard.open_address()

    sent = orjson.dumps(await dashboard.board()) + (await dashboard.get("/api/clusters/edge-1")).body

    secrets = [
        token.reveal().partition(".")[2],
        pull,
        pull.rpartition(".")[2],
        base64.b64encode(pull.encode()).decode(),
    ]
    assert [secret for secret in secrets if secret.encode() in sent] == []
    assert token.id.encode() in sent


async def test_text_that_reorders_a_line_is_escaped(hub: CredentialFleet, dashboard: DashboardHarness) -> None:
    await hub.cluster("edge-1", available="False", said="all\u202ewell\x1b[2J")
    await dashboard.open_address()

    (row,) = await dashboard.rows("cluster")

    assert row["note"] == "all\\u202ewell\\u001b[2J"


async def test_page_of_a_cluster_holds_conditions_events_and_history(
    hub: CredentialFleet, dashboard: DashboardHarness
) -> None:
    await hub.cluster("edge-1", available="Unknown", said="silent")
    await hub.addon("edge-1")
    await hub.event("edge-1", "its lease was not renewed", kind="Warning")
    await hub.client.create(CERTIFICATE_SIGNING_REQUESTS, a_request("edge-1"))
    await asyncio.sleep(1)
    await dashboard.open_address()

    page = orjson.loads((await dashboard.get("/api/clusters/edge-1")).body)

    good = {row["type"]: row["good"] for row in page["conditions"] if row["object"] == "cluster"}
    assert good[ConditionType.AVAILABLE] is False
    assert good[ConditionType.JOINED] is True
    assert "ManagedClusterAddOn sample" in {row["object"] for row in page["conditions"]}
    assert [(row["what"], row["warning"]) for row in page["events"]] == [("its lease was not renewed", True)]
    assert [row["what"] for row in page["history"] if "certificate request" in row["what"]]


async def test_renewals_and_changes_of_health_enter_the_history(
    hub: CredentialFleet, dashboard: DashboardHarness
) -> None:
    await hub.cluster("edge-1")
    await dashboard.open_address()
    await dashboard.board()
    renewed = "valid from 2026-01-01T00:00:00Z until 2026-01-05T00:00:00Z"
    rotated = a_condition(ConditionType.CERTIFICATE_ROTATED, "True", "ClientCertificateUpdated", renewed)
    silent = a_condition(ConditionType.AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", "silent")

    await set_conditions(hub.client, "edge-1", rotated, silent)
    await dashboard.board()

    page = orjson.loads((await dashboard.get("/api/clusters/edge-1")).body)
    assert [(row["about"], row["what"]) for row in page["history"]] == [
        ("cluster", "Good became Failing: silent"),
        ("agent of edge-1", "cluster certificate renewed, valid until 2026-01-05T00:00:00Z"),
    ]
