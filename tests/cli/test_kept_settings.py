"""Repeating `init` and `join` keeps every setting that the command line does not name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from watchword.admin.apply import keep_unnamed
from watchword.admin.hub_setup import HubSetup
from watchword.api.bootstrap import NODE_GROUP
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_MANAGERS, CLUSTER_ROLE_BINDINGS, DEPLOYMENTS, KLUSTERLETS
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.setup import REQUESTERS_BINDING
from watchword.operator.cluster_manager import hub_settings
from watchword.operator.klusterlet import agent_flags
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.csr.driver import CsrDriver

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet, Member


@pytest.mark.parametrize(
    ("present", "named", "expected"),
    [
        pytest.param({}, {"a": 1}, {"a": 1}, id="new"),
        pytest.param({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}, id="what is not named stays"),
        pytest.param({"l": {"x": "1", "y": "2"}}, {"l": {"x": "3"}}, {"l": {"x": "3", "y": "2"}}, id="labels"),
        pytest.param({"users": ["a"]}, {"users": ["b"]}, {"users": ["b"]}, id="a list is named as a whole"),
        pytest.param(
            {"featureGates": [{"feature": "A", "mode": "Enable"}, {"feature": "B", "mode": "Enable"}]},
            {"featureGates": [{"feature": "B", "mode": "Disable"}]},
            {"featureGates": [{"feature": "A", "mode": "Enable"}, {"feature": "B", "mode": "Disable"}]},
            id="each gate is a setting",
        ),
        pytest.param(
            {"registrationDrivers": [{"authType": "csr", "csr": {"x": 1}}, {"authType": "grpc"}]},
            {"registrationDrivers": [{"authType": "csr"}]},
            {"registrationDrivers": [{"authType": "csr", "csr": {"x": 1}}]},
            id="a driver that is named keeps its settings, another goes",
        ),
    ],
)
def test_keep_unnamed(present: Object, named: Object, expected: Object) -> None:
    assert keep_unnamed(present, named) == expected


AUTO = "ManagedClusterAutoApproval=true"


async def the_manager(cli_fleet: Fleet) -> Any:
    return await cli_fleet.client.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))


@pytest.mark.real_time
@pytest.mark.planes("embedded")  # the ClusterManager is one of a kind, and other tests share a real server
async def test_init_keeps_what_the_command_line_does_not_name(cli_fleet: Fleet) -> None:
    await cli_fleet.init(
        *("--no-probe", "--image", "registry.example/watchword:1", "--feature-gates", AUTO, "--approve-nodes"),
        *("--auto-approved-csr-users", "system:serviceaccount:ci:joiner", "--left-cluster-retention", "168h"),
    )
    before = await the_manager(cli_fleet)

    await cli_fleet.run("init", "--no-probe")

    after = await the_manager(cli_fleet)
    assert (after["spec"], after["metadata"]["annotations"]) == (before["spec"], before["metadata"]["annotations"])
    assert after["spec"]["imagePullSpec"] == "registry.example/watchword:1"
    binding = await cli_fleet.client.get(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(REQUESTERS_BINDING))
    assert NODE_GROUP in [subject["name"] for subject in binding["subjects"]]
    assert (await cli_fleet.client.list(DEPLOYMENTS)).items == []  # the first run said --no-deploy


@pytest.mark.real_time
@pytest.mark.planes("embedded")
async def test_init_refuses_users_whose_gate_is_switched_off(cli_fleet: Fleet) -> None:
    new = await cli_fleet.run("init", "--no-deploy", "--no-probe", "--auto-approved-csr-users", "joiner", code=2)
    await cli_fleet.init("--no-probe", "--feature-gates", AUTO, "--auto-approved-csr-users", "joiner")

    said = await cli_fleet.run("init", "--no-probe", "--feature-gates", "ManagedClusterAutoApproval=false", code=2)

    assert "--feature-gates ManagedClusterAutoApproval=true" in new
    assert "--feature-gates ManagedClusterAutoApproval=true" in said


@pytest.mark.real_time
async def test_join_keeps_what_the_command_line_does_not_name(member: Member) -> None:
    await member.join(
        *("--image", "registry.example/agent:1", "--cluster-labels", "site=bern,tier=edge"),
        *("--client-cert-expiration-seconds", "7200", "--addon-kubeclient-registration-auth", "token"),
    )
    key = ObjectKey.cluster(member.name)
    before = await member.fleet.client.get(KLUSTERLETS, key)

    flags = ("--cluster-name", member.name, "--klusterlet-name", member.name, "--cluster-labels", "tier=core")
    told = await member.fleet.run("join", *member.join_arguments, *flags, "-o", "json")

    after = await member.fleet.client.get(KLUSTERLETS, key)
    registration = before["spec"]["registrationConfiguration"]
    registration["clusterLabels"] = {"site": "bern", "tier": "core"}
    assert after["spec"] == before["spec"]
    assert not [name for name in json.loads(told)["applied"] if name.startswith("deployment/")]
    assert f"secret/{member.namespace}/bootstrap-hub-kubeconfig" in json.loads(told)["applied"]


@pytest.mark.real_time
async def test_join_replaces_a_lifetime_by_0_which_means_the_default(member: Member) -> None:
    await member.join("--client-cert-expiration-seconds", "7200")

    flags = ("--cluster-name", member.name, "--klusterlet-name", member.name, "--client-cert-expiration-seconds", "0")
    await member.fleet.run("join", *member.join_arguments, *flags)

    klusterlet = await member.fleet.client.get(KLUSTERLETS, ObjectKey.cluster(member.name))
    assert klusterlet["spec"]["registrationConfiguration"]["clientCertExpirationSeconds"] == 0
    assert not [flag for flag in agent_flags(klusterlet) if flag.startswith("--client-cert-expiration-seconds")]


@pytest.mark.real_time
@pytest.mark.planes("embedded")
async def test_users_named_by_init_replace_those_in_the_entry_of_the_driver(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe", "--feature-gates", AUTO)
    older = [{"authType": "csr", "csr": {"autoApprovedIdentities": ["left-the-company"]}}]
    change = {"spec": {"registrationConfiguration": {"registrationDrivers": older}}}
    await cli_fleet.client.patch(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"), change)

    await cli_fleet.run("init", "--no-probe", "--auto-approved-csr-users", "joiner")

    assert hub_settings(await the_manager(cli_fleet), CATALOG)["--auto-approved-csr-users"] == "joiner"


class RenamedCsrDriver(CsrDriver):
    aliases = ("certificate",)


def test_an_entry_under_an_alias_is_the_entry_of_its_driver() -> None:
    catalog = Catalog((RenamedCsrDriver(),))
    entry = {"authType": "certificate", "csr": {"autoApprovedIdentities": ["joiner"]}}
    present = {"spec": {"registrationConfiguration": {"registrationDrivers": [entry]}}}
    setup = HubSetup(ClusterInfo(("https://hub.example",), ()), drivers=("csr",), present=present, catalog=catalog)

    assert setup.spec["registrationConfiguration"]["registrationDrivers"] == [{**entry, "authType": "csr"}]
