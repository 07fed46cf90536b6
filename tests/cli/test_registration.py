"""Clusters join, are accepted, denied, and leave, by commands alone, with hub and agents running."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from watchword.admin.join import ClusterMembership
from watchword.api.bootstrap import bootstrap_user, token_secret_key
from watchword.api.conditions import is_true
from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_KUBECONFIG_SECRET, Annotation, ConditionType, registration_binding
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGERS,
    DEPLOYMENTS,
    KLUSTERLETS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.cli.join import choose_next
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually, exists

if TYPE_CHECKING:
    from tests.cli.conftest import Member

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


async def test_a_cluster_joins_by_three_commands(member: Member) -> None:
    await member.asks()
    accepted = await member.fleet.run("accept", "--clusters", member.name, "--wait", "-o", "json")
    await member.joined()
    listed = await member.fleet.run("clusters", "-o", "json")

    (decision,) = json.loads(accepted)
    assert (decision["cluster"], decision["changed"], len(decision["approvedRequests"])) == (member.name, True, 1)
    (cluster,) = [row for row in json.loads(listed)["items"] if row["metadata"]["name"] == member.name]
    assert is_true(cluster, ConditionType.JOINED)


async def test_join_waits_until_the_cluster_has_joined(member: Member) -> None:
    await member.join()
    await member.fleet.start_agent(member.name, member.namespace)
    waiting = asyncio.create_task(member.fleet.start("join", *member.join_arguments, *member.own, "--wait"))
    await member.fleet.run("accept", "--clusters", member.name, "--wait")
    assert await waiting == 0


async def test_each_verb_may_be_repeated(member: Member) -> None:
    await member.asks()
    await member.join()
    for changed in (True, False):
        (decision,) = json.loads(await member.fleet.run("accept", "-c", member.name, "-o", "json"))
        assert decision["changed"] is changed
    await member.joined()
    await member.join()
    for changed in (True, False):
        (decision,) = json.loads(await member.fleet.run("deny", "-c", member.name, "--wait", "-o", "json"))
        assert decision["changed"] is changed


async def test_a_denied_cluster_loses_its_rights_and_can_be_accepted_again(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.fleet.run("deny", "-c", member.name, "--wait")
    binding = ObjectKey(member.name, registration_binding(member.name))
    assert await member.fleet.client.find(ROLE_BINDINGS, binding) is None
    await member.fleet.run("accept", "-c", member.name, "--wait")
    await eventually(member.fleet.client, ROLE_BINDINGS, binding, exists)


async def test_unjoin_gives_the_acceptance_back_and_leaves_nothing_here(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    said = json.loads(await member.fleet.run("unjoin", *member.own, "-o", "json"))
    again = json.loads(await member.fleet.run("unjoin", *member.own, "-o", "json"))

    client = member.fleet.client
    cluster = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    assert (said["hubTold"], said["left"], again["removed"]) == (True, [], [])
    assert not cluster["spec"]["hubAcceptsClient"]
    assert not is_true(cluster, ConditionType.HUB_ACCEPTED)
    assert await client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is None
    assert await client.find(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET)) is None


async def test_cluster_that_left_comes_back_by_the_commands_that_are_named(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.fleet.run("unjoin", *member.own)

    await member.stop()
    said = json.loads(await member.join("-o", "json"))
    member.agent = await member.fleet.start_agent(member.name, member.namespace)
    _, _, command = said["next"].partition("watchword ")
    done = await member.fleet.run(*command.split(), "--yes", "--wait")

    assert "is taken over by the key" in done
    await member.has_credential()
    cluster = await member.condition(ConditionType.HUB_ACCEPTED, "True")
    assert Annotation.LEFT_ON not in cluster["metadata"]["annotations"]


async def test_cluster_that_left_is_not_accepted_before_its_new_key_has_asked(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.fleet.run("unjoin", *member.own)
    await member.stop()

    said = await member.fleet.run("rejoin", "--take-over", "--cluster-name", member.name, "--yes", code=3)

    assert "no request yet" in said
    cluster = await member.fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    assert not cluster["spec"]["hubAcceptsClient"]


async def test_denial_ends_a_take_over_that_waits(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.fleet.run("unjoin", *member.own)
    await member.stop()
    taking_over = member.fleet.start("rejoin", "--take-over", "--cluster-name", member.name, "--yes", "--wait")
    waiting = asyncio.create_task(taking_over)

    await member.fleet.run("deny", "-c", member.name)

    assert await waiting == 4
    cluster = await member.fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    assert Annotation.DENIED_ON in cluster["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("driver", "command"),
    [
        pytest.param("csr", "rejoin --take-over --cluster-name edge-1", id="its key is new"),
        pytest.param("aws-irsa", "accept edge-1", id="it has no key of its own"),
    ],
)
def test_next_step_for_a_cluster_that_left(driver: str, command: str) -> None:
    known = a_cluster("edge-1", annotations={Annotation.LEFT_ON: "2026-01-01T00:00:00Z"})

    assert choose_next(ClusterMembership(cluster="edge-1", registration_auth=driver), known).endswith(command)


async def test_unjoin_before_acceptance_cleans_up_here_and_says_what_is_left(member: Member) -> None:
    await member.asks()
    said = await member.fleet.run("unjoin", *member.own, code=5)
    assert "this cluster has no credential" in said
    assert f"watchword deny {member.name}" in said
    assert await member.fleet.client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is None


async def test_unjoin_while_the_hub_is_away_cleans_up_here_and_says_what_is_left(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.stop()
    await member.hub_moves_away()
    said = await member.fleet.run("unjoin", *member.own, code=5)
    assert "the hub was not notified" in said
    assert f"watchword deny {member.name}" in said
    assert await member.fleet.client.find(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET)) is None


async def test_a_second_cluster_of_the_same_name_comes_in_only_by_take_over(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.loses_its_credential()
    refused = await member.fleet.run("accept", "-c", member.name, code=4)
    done = await member.fleet.run("rejoin", "--take-over", "--cluster-name", member.name, "--yes", "--wait")

    assert "rejoin --take-over" in refused
    assert "is taken over by the key" in done
    await member.has_credential()


@pytest.mark.slow
async def test_a_token_that_expired_before_acceptance_is_replaced_by_another(member: Member) -> None:
    await member.asks()
    (old,) = [part for part in member.join_arguments if "." in part and len(part) == 23]
    await member.fleet.client.delete(SECRETS, token_secret_key(old[:6]))
    refused = await member.fleet.run("accept", "-c", member.name, code=4)
    (fresh,) = (await member.fleet.run("token", "create")).split()
    arguments = [fresh if part == old else part for part in member.join_arguments]
    await member.fleet.run("rejoin", *arguments, *member.own)

    await member.fleet.write_bootstrap(member.namespace)
    await member.asked_as(bootstrap_user(fresh[:6]))
    await member.fleet.run("accept", "-c", member.name)

    assert "is gone: create a new one" in refused
    await member.joined()


async def test_rejoin_gives_the_agent_a_new_token(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    before = await member.bootstrap_kubeconfig()
    (fresh,) = (await member.fleet.run("token", "create")).split()
    arguments = [fresh if "." in part and len(part) == 23 else part for part in member.join_arguments]
    said = await member.fleet.run("rejoin", *arguments, *member.own)

    assert "rejoin --take-over" in said
    assert (await member.bootstrap_kubeconfig()) != before
    assert fresh.encode() in await member.bootstrap_kubeconfig()


async def test_a_dry_run_changes_nothing(member: Member) -> None:
    await member.join("--dry-run")
    assert await member.fleet.client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is None
    await member.asks()
    await member.fleet.run("accept", "-c", member.name, "--dry-run")
    cluster = await member.fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    request = await member.fleet.request_of(member.name)
    assert not cluster["spec"]["hubAcceptsClient"]
    assert not (await member.fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(request)))["status"]
    await member.fleet.run("unjoin", *member.own, "--dry-run")
    assert await member.fleet.client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is not None


@pytest.mark.planes("embedded")  # the other one is shared and always serves
async def test_operator_is_removed_with_the_last_klusterlet(member: Member) -> None:
    await member.fleet.run("join", *member.join_arguments, *member.own)
    operator = ObjectKey("open-cluster-management", "watchword-operator")
    assert await member.fleet.client.find(DEPLOYMENTS, operator) is not None
    await member.fleet.run("unjoin", *member.own, "-o", "json", code=5)
    assert await member.fleet.client.find(DEPLOYMENTS, operator) is not None  # this cluster is a hub, too
    for manager in (await member.fleet.client.list(CLUSTER_MANAGERS)).items:
        await member.fleet.client.delete(CLUSTER_MANAGERS, ObjectKey.of(manager))
    await member.fleet.run("join", *member.join_arguments, *member.own, "--no-deploy")
    await member.fleet.run("unjoin", *member.own, code=5)
    assert await member.fleet.client.find(DEPLOYMENTS, operator) is None


async def test_a_rebuilt_cluster_gets_its_name_only_from_the_hub_s_administrator(member: Member) -> None:
    namesake = a_cluster(member.name, accepted=True, annotations={Annotation.CLUSTER_UID: "of the old one"})
    await member.fleet.client.create(MANAGED_CLUSTERS, namesake)
    refused = await member.join(code=4)
    freed = await member.fleet.run("rejoin", "--take-over", "--cluster-name", member.name, "--yes", code=3)
    assert "of the old one" in refused
    assert await member.fleet.client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is None
    assert "is free for a new key" in freed
    await member.asks()
    await member.fleet.run("rejoin", "--take-over", "--cluster-name", member.name, "--yes", "--wait")
    await member.joined()


async def test_take_over_does_nothing_without_confirmation(member: Member) -> None:
    claimed = a_cluster(member.name, accepted=True, annotations={Annotation.CLUSTER_UID: "of the old one"})
    await member.fleet.client.create(MANAGED_CLUSTERS, claimed)
    said = await member.fleet.run("rejoin", "--take-over", "--cluster-name", member.name, code=2)
    found = await member.fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    assert "belongs to a cluster that is accepted" in said
    assert "--yes" in said
    assert found["metadata"]["annotations"][Annotation.CLUSTER_UID] == "of the old one"
