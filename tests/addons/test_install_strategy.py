"""An add-on comes to the clusters that its strategy chooses, and goes with the choice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from tests.addons.fleet import AddonFleet

from watchword.api.conditions import find_condition
from watchword.api.crds.schema import array, definition, record, string, version
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
)
from watchword.hub import prerequisites
from watchword.hub.addons.controllers import hub_addon_controllers
from watchword.hub.process import HubOptions, run_hub
from watchword.kube.client import Client
from watchword.kube.transport import Transport
from watchword.runtime.manifests import establish_crds
from watchword.testing.eventually import eventually, exists, is_gone
from watchword.testing.fleet import AUTOMATIC

FOLLOWED = ConditionType.INSTALL_STRATEGY_FOLLOWED
DECISION = record("One cluster.", {"clusterName": string("Its name."), "reason": string("Why.")})
DECISIONS = definition(
    PLACEMENT_DECISIONS,
    version(
        PLACEMENT_DECISIONS.version,
        "What a placement decided.",
        {"status": record("The clusters.", {"decisions": array("Each of them.", DECISION)})},
    ),
)
FORBIDDEN = Response(403, body=b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"}')
OPT_OUT = {Annotation.DISABLE_AUTOMATIC_INSTALLATION: "true"}


async def known(fleet: AddonFleet, name: str, strategy: str, **spec: Any) -> str:
    """Make an add-on's kind with a strategy, and return its name."""
    obj = CLUSTER_MANAGEMENT_ADDONS.manifest(
        ObjectKey.cluster(f"{name}{fleet.mark}"), spec={"installStrategy": {"type": strategy, **spec}}
    )
    await fleet.client.create(CLUSTER_MANAGEMENT_ADDONS, obj)
    return f"{name}{fleet.mark}"


async def a_set(fleet: AddonFleet) -> str:
    name = f"set{fleet.mark}"
    await fleet.client.create(MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(name), spec={}))
    return name


async def move(fleet: AddonFleet, cluster: str, to: str) -> None:
    patch = {"metadata": {"labels": {Label.CLUSTER_SET: to}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), patch)


async def says(fleet: AddonFleet, addon: str, status: str, reason: str) -> None:
    def is_so(obj: Object | None) -> bool:
        said = find_condition(obj or {}, FOLLOWED)
        return said is not None and (said.status, said.reason) == (status, reason)

    await eventually(fleet.client, CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(addon), is_so)


async def decide(fleet: AddonFleet, placement: str, *clusters: str, number: int = 1) -> None:
    """Decide, as the one does who serves placements."""
    key = ObjectKey(fleet.namespace, f"{placement}-decision-{number}")
    if await fleet.client.find(PLACEMENT_DECISIONS, key) is None:
        obj = PLACEMENT_DECISIONS.manifest(key, metadata={"labels": {Label.PLACEMENT: placement}})
        await fleet.client.create(PLACEMENT_DECISIONS, obj)
    status = {"decisions": [{"clusterName": name, "reason": ""} for name in clusters]}
    await fleet.client.patch(PLACEMENT_DECISIONS, key, {"status": status}, subresource="status")


async def test_addon_of_a_set_comes_and_goes_with_the_cluster_s_membership(fleet: AddonFleet) -> None:
    cluster, name = await fleet.cluster(), await a_set(fleet)
    addon = ObjectKey(cluster, await known(fleet, "by-set", "ClusterSets", clusterSets=[{"name": name}]))
    await says(fleet, addon.name, "True", "ClusterSetsFollowed")

    await move(fleet, cluster, name)
    enabled = await fleet.until(addon, exists)
    assert [owner["kind"] for owner in enabled["metadata"]["ownerReferences"]] == ["ClusterManagementAddOn"]

    await move(fleet, cluster, "default")
    await fleet.until(addon, is_gone)


async def test_addon_follows_what_its_strategy_and_the_set_come_to_say(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    addon = ObjectKey(cluster, await known(fleet, "by-set", "ClusterSets", clusterSets=[{"name": f"set{fleet.mark}"}]))
    await says(fleet, addon.name, "False", "ClusterSetNotFound")

    name = await a_set(fleet)
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"tier": fleet.namespace}}}
    await fleet.client.patch(MANAGED_CLUSTER_SETS, ObjectKey.cluster(name), {"spec": {"clusterSelector": selector}})
    patch = {"metadata": {"labels": {"tier": fleet.namespace}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), patch)
    await fleet.until(addon, exists)

    strategy: Object = {"spec": {"installStrategy": {"clusterSets": []}}}
    await fleet.client.patch(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(addon.name), strategy)
    await fleet.until(addon, is_gone)


async def test_removed_addon_of_a_set_returns_unless_its_cluster_opts_out(fleet: AddonFleet) -> None:
    cluster, name = await fleet.cluster(), await a_set(fleet)
    addon = ObjectKey(cluster, await known(fleet, "by-set", "ClusterSets", clusterSets=[{"name": name}]))
    await move(fleet, cluster, name)
    first = await fleet.until(addon, exists)

    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    uid = first["metadata"]["uid"]
    await fleet.until(addon, lambda obj: obj is not None and obj["metadata"]["uid"] != uid)

    opt_out = {"metadata": {"annotations": OPT_OUT}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), opt_out)
    other = ObjectKey(cluster, await known(fleet, "marker", "Manual"))
    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    await fleet.enable(other.name, cluster)
    await fleet.until(other, lambda obj: bool((obj or {})["metadata"].get("ownerReferences")))
    assert await fleet.client.find(MANAGED_CLUSTER_ADDONS, addon) is None


async def test_strategy_that_becomes_manual_leaves_addons_where_they_are(fleet: AddonFleet) -> None:
    cluster, name = await fleet.cluster(), await a_set(fleet)
    addon = ObjectKey(cluster, await known(fleet, "by-set", "ClusterSets", clusterSets=[{"name": name}]))
    await move(fleet, cluster, name)
    first = await fleet.until(addon, exists)

    manual = {"spec": {"installStrategy": {"type": "Manual"}}}
    await fleet.client.patch(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(addon.name), manual)
    await eventually(
        fleet.client,
        CLUSTER_MANAGEMENT_ADDONS,
        ObjectKey.cluster(addon.name),
        lambda obj: find_condition(obj or {}, FOLLOWED) is None,
    )
    await move(fleet, cluster, "default")
    found = await fleet.until(addon, exists)
    assert found["metadata"]["uid"] == first["metadata"]["uid"]


async def test_addon_enabled_by_hand_goes_with_its_kind(fleet: AddonFleet) -> None:
    name = await known(fleet, "by-hand", "Manual")
    addon = await fleet.enable(name, await fleet.cluster())
    await fleet.until(addon, lambda obj: bool((obj or {})["metadata"].get("ownerReferences")))

    await fleet.client.delete(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(name))

    await fleet.until(addon, is_gone)


async def test_addon_follows_the_decisions_of_its_placements(fleet: AddonFleet) -> None:
    await establish_crds(fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    one, other = await fleet.cluster(), await fleet.cluster()
    await decide(fleet, "near", one)
    rows = [{"namespace": fleet.namespace, "name": name} for name in ("near", "far")]
    name = await known(fleet, "placed", "Placements", placements=rows)

    await says(fleet, name, "True", "PlacementsFollowed")
    await fleet.until(ObjectKey(one, name), exists)
    await decide(fleet, "far", other)
    await fleet.until(ObjectKey(other, name), exists)
    await decide(fleet, "near")

    await fleet.until(ObjectKey(one, name), is_gone)
    assert await fleet.client.find(MANAGED_CLUSTER_ADDONS, ObjectKey(other, name)) is not None


@pytest.mark.planes("embedded")  # a control plane that tests share may serve decisions already
async def test_placements_that_nobody_decides_are_said_and_followed_once_somebody_does(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    placement = {"namespace": fleet.namespace, "name": "near"}
    addon = ObjectKey(cluster, await known(fleet, "placed", "Placements", placements=[placement]))
    await says(fleet, addon.name, "False", "PlacementsNotServed")

    await establish_crds(fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    await decide(fleet, "near", cluster)

    await fleet.until(addon, exists)
    await says(fleet, addon.name, "True", "PlacementsFollowed")


@pytest.mark.planes("embedded")  # the definition is everybody's on a control plane that tests share
async def test_addons_stay_when_decisions_can_be_known_no_longer(fleet: AddonFleet) -> None:
    await establish_crds(fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    cluster = await fleet.cluster()
    await decide(fleet, "near", cluster)
    placement = {"namespace": fleet.namespace, "name": "near"}
    addon = ObjectKey(cluster, await known(fleet, "placed", "Placements", placements=[placement]))
    await fleet.until(addon, exists)

    await fleet.client.delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(DECISIONS))

    await says(fleet, addon.name, "False", "PlacementsNotServed")
    assert await fleet.client.find(MANAGED_CLUSTER_ADDONS, addon) is not None


@dataclass
class Refusing:
    """A transport that is refused everything under one name."""

    inner: Transport
    name: str

    def refuses(self, request: Request) -> bool:
        return f"/{self.name}" in request.path

    async def send(self, request: Request) -> Response:
        return FORBIDDEN if self.refuses(request) else await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        if self.refuses(request):
            yield FORBIDDEN
            return
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        await self.inner.close()


@pytest.mark.planes("embedded")  # the same as above
async def test_hub_that_may_not_read_decisions_says_so_and_does_the_rest(fleet: AddonFleet) -> None:
    await fleet.members.stop(fleet.hub)
    await establish_crds(fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    hub = Client(Refusing(fleet.plane.fresh_client().transport, PLACEMENT_DECISIONS.plural))
    options = HubOptions(settings=AUTOMATIC, auto_approval=True, elect=False, install=False)
    work = run_hub(hub, options, clock=fleet.plane.clock, random=Random(1), extensions=[hub_addon_controllers])
    fleet.members.tasks.append(asyncio.create_task(work))

    cluster = await fleet.cluster()
    name = await known(fleet, "placed", "Placements", placements=[{"namespace": "a", "name": "b"}])

    await says(fleet, name, "False", "PlacementsNotReadable")
    await fleet.refreshed(await fleet.enable("reporter", cluster))
