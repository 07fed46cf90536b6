"""Add-ons get their credential whatever their cluster registers by: a driver is a folder and a line in the catalog."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.addons.fleet import AddonFleet, account_of
from tests.addons.test_driver_switch import CERTIFICATE_KEYS, TOKEN_KEYS
from tests.registration.voucher_driver import (
    HUB_SETTINGS,
    SETTINGS,
    VOUCHER,
    CloudConnector,
    RelayConnector,
    catalog_with_vouchers,
)

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SERVICE_ACCOUNTS
from watchword.credentials.errors import UnknownDriver
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.testing.eventually import eventually, eventually_all

KEYS = {"token": TOKEN_KEYS, "csr": CERTIFICATE_KEYS}
CONNECTORS = {"cloud": CloudConnector, "relay": RelayConnector}


async def with_vouchers(addon_fleet: AddonFleet, connector: str, auth: str) -> str:
    """Run a hub with the additional driver, and let a cluster join by it; an administrator accepts."""
    await addon_fleet.members.stop(addon_fleet.hub)
    catalog = catalog_with_vouchers(addon_fleet.plane, CONNECTORS[connector])
    options = HubOptions(drivers=("csr", VOUCHER), catalog=catalog, settings=HUB_SETTINGS, elect=False, install=False)
    hub = run_hub(
        addon_fleet.plane.fresh_client(),
        options,
        clock=addon_fleet.plane.clock,
        random=Random(1),
        extensions=[hub_addon_controllers],
    )
    addon_fleet.members.tasks.append(asyncio.create_task(hub))
    name = addon_fleet.members.name(f"edge{addon_fleet.mark}")
    addon_fleet.connectors[name] = CONNECTORS[connector](addon_fleet.plane, cluster=name)
    await addon_fleet.start_agent(name, auth=auth, catalog=catalog, registration_auth=VOUCHER, settings=SETTINGS)
    await eventually(addon_fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name))
    await addon_fleet.members.accept(name)
    await addon_fleet.members.joined(name)
    return name


def as_addon(addon_fleet: AddonFleet, data: dict[str, bytes]) -> Client:
    return addon_fleet.as_token(data["token"]) if "token" in data else addon_fleet.as_certificate(data)


@pytest.mark.parametrize("auth", ["csr", "token"])
@pytest.mark.parametrize("connector", CONNECTORS)
async def test_addon_of_any_cluster_has_either_credential(addon_fleet: AddonFleet, connector: str, auth: str) -> None:
    cluster = await with_vouchers(addon_fleet, connector, auth)

    key = await addon_fleet.enable("reporter", cluster)

    data = await addon_fleet.secret(key)
    assert set(data) == KEYS[auth]
    user = {
        "token": f"system:serviceaccount:{cluster}:{cluster}-reporter-agent",
        "csr": f"system:open-cluster-management:cluster:{cluster}:addon:reporter:agent:reporter",
    }
    assert (await who_am_i(as_addon(addon_fleet, data))).username == user[auth]


async def test_addon_inherits_the_way_to_the_hub_from_its_cluster(addon_fleet: AddonFleet) -> None:
    cluster = await with_vouchers(addon_fleet, "relay", "token")

    await addon_fleet.refreshed(await addon_fleet.enable("reporter", cluster))

    connector = addon_fleet.connectors[cluster]
    assert isinstance(connector, RelayConnector)
    assert connector.passed["POST token"] == 1
    assert connector.passed["PATCH status"] >= 2


async def test_cluster_of_a_cloud_has_certificates_of_other_signers(addon_fleet: AddonFleet) -> None:
    cluster = await with_vouchers(addon_fleet, "cloud", "token")
    signer = {"type": "customSigner", "customSigner": {"signerName": "example.com/own"}}

    await addon_fleet.refreshed(await addon_fleet.enable("reporter", cluster, {"type": "kubeClient"}, signer))

    def is_own(csr: Object) -> bool:
        return csr["spec"]["signerName"] == "example.com/own" and labels_of(csr)[Label.CLUSTER_NAME] == cluster

    found = await eventually_all(
        addon_fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda found: any(map(is_own, found.values()))
    )
    assert [csr["spec"]["username"] for csr in found.values() if is_own(csr)] == [cluster]


async def test_recreated_account_is_recovered_from_over_any_driver(addon_fleet: AddonFleet) -> None:
    cluster = await with_vouchers(addon_fleet, "cloud", "token")
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)

    await addon_fleet.client.delete(SERVICE_ACCOUNTS, account_of(key))

    second = await addon_fleet.secret(key, lambda data: data["service-account-uid"] != first["service-account-uid"])
    assert (await who_am_i(addon_fleet.as_token(second["token"]))).uid == second["service-account-uid"].decode()


async def test_removed_cluster_of_any_driver_leaves_no_account(addon_fleet: AddonFleet) -> None:
    cluster = await with_vouchers(addon_fleet, "relay", "token")
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, ConditionType.TOKEN_INFRASTRUCTURE_READY)

    await addon_fleet.members.remove(cluster)

    await addon_fleet.gone(SERVICE_ACCOUNTS, account_of(key))


def test_newcomer_for_clusters_is_none_for_addons() -> None:
    with pytest.raises(UnknownDriver, match="choose one of csr, token"):
        ADDON_CATALOG.find(VOUCHER)
