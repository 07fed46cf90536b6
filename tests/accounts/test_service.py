"""The hub serves accounts itself, from the moment at which the add-on is installed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import pytest
from tests.accounts.fleet import AccountsFleet, Member, says
from tests.helpers.fleet import HUB, run_fleet

from watchword.accounts.hub.controllers import AccountsService, is_settling
from watchword.accounts.hub.definition import accounts_addon
from watchword.admin.addons import AccountsAddonAdmin, accounts_bundle
from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import Object, ObjectKey, finalizers_of
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.time import rfc3339
from watchword.api.yaml import load_all
from watchword.cli.main import run
from watchword.kube.client import Client
from watchword.operator.rbac import ACCOUNTS_ROLE
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.runtime.manifests import apply_manifests
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import EPOCH


def start_hub(fleet: AccountsFleet, client: Client | None = None) -> None:
    service = AccountsService(Random("accounts"))
    options = HubOptions(elect=False, install=False, addons=(accounts_addon(),), services={ADDON_NAME: service.run})
    hub = run_hub(
        client or fleet.plane.fresh_client(),
        options,
        clock=fleet.plane.clock,
        random=Random("hub"),
        extensions=[hub_addon_controllers],
    )
    fleet.harness.tasks.append(asyncio.create_task(hub))


async def an_accepted_cluster(fleet: AccountsFleet) -> Member:
    """Add a cluster whose namespace the hub makes, and run its agent of the add-on."""
    name = fleet.plane.unique("edge")
    fleet.harness.clusters.append(name)
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    accepted = says(ConditionType.HUB_ACCEPTED, "True")
    await eventually(fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), accepted)
    await eventually(fleet.client, NAMESPACES, ObjectKey.cluster(name))
    member = Member(name, await fleet.plane.namespace("agents"), fleet.plane.ca_pem)
    await fleet.enable(member)
    await fleet.start_agent(member)
    return member


async def until_held(fleet: AccountsFleet, key: ObjectKey) -> None:
    await fleet.until(key)
    await eventually(
        fleet.client, MANAGED_SERVICE_ACCOUNTS, key, lambda obj: Finalizer.ACCOUNT in finalizers_of(obj or {})
    )


async def test_hub_serves_accounts_when_the_add_on_is_installed_and_again_when_it_returns(private_plane: Plane) -> None:
    async with run_fleet(private_plane) as harness:
        fleet = AccountsFleet(harness)
        start_hub(fleet)
        assert await AccountsAddonAdmin(fleet.client).install()
        member = await an_accepted_cluster(fleet)
        await until_held(fleet, await fleet.declare(member.name, "first"))

        await fleet.client.delete(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(ADDON_NAME))
        await eventually(fleet.client, MANAGED_CLUSTER_ADDONS, ObjectKey(member.name, ADDON_NAME), is_gone)
        assert await AccountsAddonAdmin(fleet.client).install()
        other = await an_accepted_cluster(fleet)
        await until_held(fleet, await fleet.declare(other.name, "second"))


async def test_printed_manifests_suffice_for_a_hub_without_an_operator(
    private_plane: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["manifests", ADDON_NAME]) == 0
    printed = load_all(capsys.readouterr().out)
    kinds = {kind.kind: kind for kind, _ in accounts_bundle()}
    async with run_fleet(private_plane) as harness:
        fleet = AccountsFleet(harness)
        await fleet.client.delete(CLUSTER_ROLES, ObjectKey.cluster(ACCOUNTS_ROLE))  # the operator's
        start_hub(fleet, harness.client_of(HUB))
        await apply_manifests(fleet.client, [(kinds[obj["kind"]], obj) for obj in printed], manager="kubectl")

        member = await an_accepted_cluster(fleet)
        account = await fleet.declare(member.name, "robot")

        await until_held(fleet, account)
        await eventually(fleet.client, SECRETS, account, lambda obj: "token" in ((obj or {}).get("data") or {}))


def a_secret_of(age: timedelta, name: str = "robot") -> Object:
    return {"metadata": {"name": name, "creationTimestamp": rfc3339(EPOCH - age)}}


@pytest.mark.parametrize(
    ("secrets", "granted", "waits"),
    [
        pytest.param([], set(), False, id="nothing to grant"),
        pytest.param([a_secret_of(timedelta(seconds=9))], set(), False, id="Secret of some seconds ago"),
        pytest.param([a_secret_of(timedelta(seconds=-9))], set(), False, id="server's clock is ahead"),
        pytest.param([a_secret_of(timedelta(seconds=1))], {"gone"}, False, id="a name has to be taken back"),
        pytest.param([a_secret_of(timedelta(seconds=1))], {"robot"}, False, id="granted already"),
        pytest.param([a_secret_of(timedelta(seconds=1))], set(), True, id="Secret of this moment"),
    ],
)
def test_names_of_new_secrets_are_granted_together(secrets: list[Object], granted: set[str], *, waits: bool) -> None:
    assert is_settling(secrets, granted, now=EPOCH) is waits
