"""The work part under the conditions it will meet: narrow rights, bad lines, long quiet times, a whole agent."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults
from tests.helpers.fleet import AUTOMATIC, run_fleet
from tests.helpers.server_decision import grant
from tests.work.work_environment import WorkEnvironment

from watchword.api.cluster import Cluster
from watchword.api.meta import ObjectKey
from watchword.api.names import agent_user, cluster_group
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MANIFEST_WORKS,
    NAMESPACES,
    ROLE_BINDINGS,
)
from watchword.kube.client import Client
from watchword.operator.rbac import AGENT_RULES, EXECUTION_ROLE
from watchword.processes.agent import work_controllers
from watchword.registration.hub.cluster_rbac import COMMON_ROLES, binding_manifests, cluster_subjects
from watchword.testing.builders import a_cluster, a_cluster_role_binding
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane


async def narrow(site: WorkEnvironment) -> tuple[Client, Client]:
    """Return clients with no more rights than an agent has on its cluster and on its hub."""
    await site.plane.controllers("clusterrole-aggregation-controller")
    admin, who = site.client, site.identity
    whole = ObjectKey.cluster(EXECUTION_ROLE)
    await eventually(admin, CLUSTER_ROLES, whole, lambda obj: bool((obj or {}).get("rules")), within=60)
    role = CLUSTER_ROLES.manifest(ObjectKey.cluster(site.plane.unique("agent")), rules=AGENT_RULES)
    await admin.create(CLUSTER_ROLES, role)
    for name in (role["metadata"]["name"], EXECUTION_ROLE):
        binding = a_cluster_role_binding(f"{site.cluster}-{name}", role=name, users=[who])
        await admin.create(CLUSTER_ROLE_BINDINGS, binding)
    for name, rules in COMMON_ROLES.items():
        await admin.apply(CLUSTER_ROLES, CLUSTER_ROLES.manifest(ObjectKey.cluster(name), rules=rules))
    *_, binding = binding_manifests(Cluster.read(a_cluster(site.cluster, uid="u")), cluster_subjects(site.cluster))
    metadata = {"name": binding["metadata"]["name"], "namespace": site.cluster}
    await admin.create(ROLE_BINDINGS, {**binding, "metadata": metadata})
    agent = site.plane.client(agent_user(site.cluster, "a"), [cluster_group(site.cluster)])
    return site.plane.client(who), agent


async def test_the_rights_that_are_rendered_are_enough(site: WorkEnvironment) -> None:
    cluster, hub = await narrow(site)
    site.start(client=cluster, hub=hub)
    await site.has("w", site.config_map("one"), site.config_map("two"))
    await site.applied("w")
    await site.client.patch(CONFIG_MAPS, ObjectKey(site.namespace, "one"), {"data": {"a": "2"}})
    await site.until("one", lambda obj: obj["data"]["a"] == "1")

    await site.removes("w")

    assert await site.find("one") is None


@pytest.mark.planes("embedded")  # minutes have to pass
async def test_a_kind_that_may_not_be_watched_is_looked_at_from_time_to_time(site: WorkEnvironment) -> None:
    cluster, hub = await narrow(site)
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "patch", "delete"]}]
    key = ObjectKey.cluster(site.plane.unique("spaces"))
    await grant(site.client, key, rules, site.identity)
    site.start(client=cluster, hub=hub)
    name = site.plane.unique("made")
    await site.has("w", NAMESPACES.manifest(ObjectKey.cluster(name), metadata={"labels": {"a": "1"}}))

    await site.applied("w")

    await site.client.patch(NAMESPACES, ObjectKey.cluster(name), {"metadata": {"labels": {"a": "2"}}})

    await site.until(name, lambda obj: obj["metadata"]["labels"]["a"] == "1", NAMESPACES, within=6 * 60)


@pytest.mark.planes("embedded")  # minutes have to pass
async def test_on_a_bad_line_everything_still_arrives(site: WorkEnvironment) -> None:
    plan = FaultPlan(
        refuse=0.05, lose=0.05, fail=0.05, delay=0.1, watch=WatchFaults(drop=0.05, cut=0.05, duplicate=0.05)
    )
    client = site.client.over(FaultyTransport(site.client.transport, plan, Random(3)))
    site.start(client=client)
    for number in range(5):
        await site.has(f"w{number}", site.config_map(f"w{number}-a"), site.config_map(f"w{number}-b"))
    for number in range(5):
        await site.says(f"w{number}", "Applied", "True", within=3600)
    await site.client.patch(CONFIG_MAPS, ObjectKey(site.namespace, "w1-a"), {"data": {"a": "2"}})
    await site.until("w1-a", lambda obj: obj["data"]["a"] == "1", within=3600)

    await site.client.delete(MANIFEST_WORKS, ObjectKey(site.cluster, "w2"))

    await eventually(site.client, MANIFEST_WORKS, ObjectKey(site.cluster, "w2"), is_gone, within=3600)
    assert await site.find("w2-a") is None


@pytest.mark.planes("embedded")  # an hour has to pass
async def test_idle_fleet_sends_hardly_any_requests(site: WorkEnvironment) -> None:
    site.start()
    await site.has("w", *[site.config_map(f"m{n}") for n in range(20)])
    await site.applied("w")
    await asyncio.sleep(60)
    site.log.clear()

    await asyncio.sleep(3600)

    assert site.writes() == []
    assert len(site.log) / 60 < 0.5  # requests per minute, three watches among them


async def test_an_agent_that_joined_does_the_work_of_its_hub(plane: Plane) -> None:
    async with run_fleet(plane) as fleet:
        fleet.start_hub(AUTOMATIC)
        name = fleet.name()
        fleet.start_agent(name, controllers=[work_controllers])
        await fleet.joined(name)
        namespace = await plane.namespace("workload")
        made = CONFIG_MAPS.manifest(ObjectKey(namespace, "one"), data={"a": "1"})
        work = MANIFEST_WORKS.manifest(ObjectKey(name, "w"), spec={"workload": {"manifests": [made]}})
        await fleet.client.create(MANIFEST_WORKS, work)
        await eventually(fleet.client, CONFIG_MAPS, ObjectKey(namespace, "one"))

        await fleet.remove(name)

        assert await fleet.client.find(CONFIG_MAPS, ObjectKey(namespace, "one")) is None


@pytest.mark.planes("embedded")  # an hour has to pass
async def test_object_that_another_program_deletes_at_once_is_applied_ever_more_rarely(site: WorkEnvironment) -> None:
    site.start()
    await site.has("w", site.config_map("one"))
    await site.applied("w")
    before = len(site.writes())
    for _ in range(3600):
        if await site.find("one") is not None:
            await site.client.delete(CONFIG_MAPS, ObjectKey(site.namespace, "one"))
        await asyncio.sleep(1)

    assert len(site.writes()) - before < 120
    await site.until("one", lambda obj: obj["data"]["a"] == "1", within=20 * 60)
