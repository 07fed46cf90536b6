"""`init --registration-auth grpc`: what is on the hub afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.operator.cluster_manager import hub_manifests, server_name
from watchword.registration.grpc.driver import SERVER

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(120),
    pytest.mark.planes("embedded"),  # the drivers of the shared one belong to all tests
]
KINDS = (
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
HOST = "grpc.example.com"
GRPC = ("--registration-auth", "grpc", "--grpc-server-hosts", HOST)
PROBED = "asking whether this hub issues client certificates"


async def initialize(cli_fleet: Fleet, *flags: str) -> str:
    """Run `init` with its probe, and return what it reports beside its result."""
    assert await cli_fleet.start("init", "--image", "registry.test/ww:1", *flags) == 0
    return " ".join(cli_fleet.output.readouterr().err.split())


async def revisions(cli_fleet: Fleet) -> set[tuple[str, str, str]]:
    lists = [(resource.plural, (await cli_fleet.client.list(resource)).items) for resource in KINDS]
    return {
        (plural, str(ObjectKey.of(obj)), obj["metadata"]["resourceVersion"]) for plural, found in lists for obj in found
    }


async def test_hub_gets_the_driver_its_host_and_the_rights_of_its_server(cli_fleet: Fleet) -> None:
    await initialize(cli_fleet, *GRPC)

    manager = await cli_fleet.client.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))
    (exposure,) = manager["spec"]["serverConfiguration"]["endpointsExposure"]
    drivers = manager["spec"]["registrationConfiguration"]["registrationDrivers"]
    rendered = [obj["metadata"]["name"] for resource, obj in hub_manifests(manager) if resource is DEPLOYMENTS]
    assert [row["authType"] for row in drivers] == ["grpc"]
    assert (exposure["protocol"], exposure["grpc"]["hostname"]["host"]) == ("grpc", HOST)
    assert server_name(manager, SERVER) in rendered
    for name in SERVER.roles:
        assert await cli_fleet.client.find(CLUSTER_ROLES, ObjectKey.cluster(name)) is not None


async def test_server_that_runs_elsewhere_has_its_account_and_rights(cli_fleet: Fleet) -> None:
    await initialize(cli_fleet, *GRPC, "--no-deploy")

    account = ObjectKey(HUB_NAMESPACE, SERVER.service_account)
    binding = await cli_fleet.client.get(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(SERVER.role))
    assert await cli_fleet.client.find(SERVICE_ACCOUNTS, account) is not None
    assert [(row["namespace"], row["name"]) for row in binding["subjects"]] == [(account.namespace, account.name)]
    assert binding["roleRef"]["name"] == SERVER.role
    assert (await cli_fleet.client.get(CLUSTER_ROLES, ObjectKey.cluster(SERVER.role)))["rules"]


async def test_second_run_changes_nothing(cli_fleet: Fleet) -> None:
    await initialize(cli_fleet, *GRPC)
    before = await revisions(cli_fleet)

    await initialize(cli_fleet, *GRPC)
    await initialize(cli_fleet)  # what is there is kept

    assert await revisions(cli_fleet) == before


async def test_signer_of_kubernetes_is_probed_only_where_a_driver_uses_it(cli_fleet: Fleet) -> None:
    alone = await initialize(cli_fleet, *GRPC)
    beside = await initialize(cli_fleet, "--registration-auth", "csr,grpc")

    assert PROBED not in alone
    assert PROBED in beside
