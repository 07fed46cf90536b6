"""Add-ons of clusters that register over gRPC: both ways in which they get their credential."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.addons.fleet import AddonFleet
from tests.addons.test_driver_switch import CERTIFICATE_KEYS, TOKEN_KEYS
from tests.registration.grpc.grpc_fleet import GrpcFleet

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.kube.access_reviews import who_am_i
from watchword.kube.kubeconfig_files import parse_kubeconfig

pytestmark = pytest.mark.real_time

KEYS = {"token": TOKEN_KEYS, "csr": CERTIFICATE_KEYS}
CONDITIONS = {"token": ConditionType.ADDON_TOKEN_REFRESHED, "csr": ConditionType.CERTIFICATE_ROTATED}


@pytest_asyncio.fixture
async def addons(grpc_fleet: GrpcFleet) -> AsyncIterator[AddonFleet]:
    members = grpc_fleet.members
    namespace = await members.plane.namespace("addons")
    found = AddonFleet(members, members.plane, namespace, members.tasks[0], "")
    yield found
    await found.close()


@pytest.mark.parametrize("auth", ["csr", "token"])
async def test_addon_of_a_cluster_over_grpc_has_either_credential(
    grpc_fleet: GrpcFleet, addons: AddonFleet, auth: str
) -> None:
    cluster = await grpc_fleet.joined(addon_auth=auth, addon_namespace=addons.namespace)

    key = await addons.enable("reporter", cluster)

    data = await addons.secret(key)
    await addons.says(key, CONDITIONS[auth])
    user = {
        "token": f"system:serviceaccount:{cluster}:{cluster}-reporter-agent",
        "csr": f"system:open-cluster-management:cluster:{cluster}:addon:reporter:agent:reporter",
    }
    client = addons.as_token(data["token"]) if auth == "token" else addons.as_certificate(data)
    assert set(data) == KEYS[auth]
    assert (await who_am_i(client)).username == user[auth]


async def test_addon_is_told_where_the_api_server_is_and_not_the_grpc_server(
    grpc_fleet: GrpcFleet, addons: AddonFleet
) -> None:
    cluster = await grpc_fleet.joined(addon_auth="token", addon_namespace=addons.namespace)

    data = await addons.secret(await addons.enable("reporter", cluster))

    assert parse_kubeconfig(data["kubeconfig"]).choose().cluster.server == "https://api.hub.test:6443"


async def test_token_of_an_addon_over_grpc_is_for_its_own_account_alone(
    grpc_fleet: GrpcFleet, addons: AddonFleet
) -> None:
    first = await grpc_fleet.joined(addon_auth="token", addon_namespace=addons.namespace)
    second = await grpc_fleet.joined(addon_auth="token", addon_namespace=addons.namespace)

    keys = [await addons.enable(name, cluster) for name, cluster in (("one", first), ("two", second))]

    found = [await who_am_i(addons.as_token((await addons.secret(key))["token"])) for key in keys]
    assert [each.username for each in found] == [account(key) for key in keys]


def account(key: ObjectKey) -> str:
    return f"system:serviceaccount:{key.namespace}:{key.namespace}-{key.name}-agent"
