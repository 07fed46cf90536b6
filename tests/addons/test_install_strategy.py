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
from tests.helpers.fleet import AUTOMATIC

from watchword.api.conditions import find_condition
from watchword.api.crds.schema import definition
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
from watchword.kube.client import Client
from watchword.kube.transport import Transport
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.registration.hub import installation as prerequisites
from watchword.runtime.manifests import establish_crds
from watchword.testing.eventually import eventually, exists, is_gone

FOLLOWED = ConditionType.INSTALL_STRATEGY_FOLLOWED
DECISIONS = definition(
    PLACEMENT_DECISIONS,
    "What a placement decided.",
    """
status: The clusters.
  decisions list: Each of them.
    -: One cluster.
      clusterName: Its name.
      reason: Why.
""",
)
FORBIDDEN = Response(403, body=b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"}')
OPT_OUT = {Annotation.DISABLE_AUTOMATIC_INSTALLATION: "true"}


async def known(addon_fleet: AddonFleet, name: str, strategy: str, **spec: Any) -> str:
    """Make an add-on's kind with a strategy, and return its name."""
    obj = CLUSTER_MANAGEMENT_ADDONS.manifest(
        ObjectKey.cluster(f"{name}{addon_fleet.mark}"), spec={"installStrategy": {"type": strategy, **spec}}
    )
    await addon_fleet.client.create(CLUSTER_MANAGEMENT_ADDONS, obj)
    return f"{name}{addon_fleet.mark}"


async def a_set(addon_fleet: AddonFleet) -> str:
    name = f"set{addon_fleet.mark}"
    await addon_fleet.client.create(
        MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(name), spec={})
    )
    return name


async def move(addon_fleet: AddonFleet, cluster: str, to: str) -> None:
    patch = {"metadata": {"labels": {Label.CLUSTER_SET: to}}}
    await addon_fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), patch)


async def says(addon_fleet: AddonFleet, addon: str, status: str, reason: str) -> None:
    def is_so(obj: Object | None) -> bool:
        said = find_condition(obj or {}, FOLLOWED)
        return said is not None and (said.status, said.reason) == (status, reason)

    await eventually(addon_fleet.client, CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(addon), is_so)


async def decide(addon_fleet: AddonFleet, placement: str, *clusters: str, number: int = 1) -> None:
    """Decide a placement as its controller does."""
    key = ObjectKey(addon_fleet.namespace, f"{placement}-decision-{number}")
    if await addon_fleet.client.find(PLACEMENT_DECISIONS, key) is None:
        obj = PLACEMENT_DECISIONS.manifest(key, metadata={"labels": {Label.PLACEMENT: placement}})
        await addon_fleet.client.create(PLACEMENT_DECISIONS, obj)
    status = {"decisions": [{"clusterName": name, "reason": ""} for name in clusters]}
    await addon_fleet.client.patch(PLACEMENT_DECISIONS, key, {"status": status}, subresource="status")


async def test_addon_of_a_set_comes_and_goes_with_the_cluster_s_membership(addon_fleet: AddonFleet) -> None:
    cluster, name = await addon_fleet.cluster(), await a_set(addon_fleet)
    addon = ObjectKey(cluster, await known(addon_fleet, "by-set", "ClusterSets", clusterSets=[{"name": name}]))
    await says(addon_fleet, addon.name, "True", "ClusterSetsFollowed")

    await move(addon_fleet, cluster, name)
    enabled = await addon_fleet.until(addon, exists)
    assert [owner["kind"] for owner in enabled["metadata"]["ownerReferences"]] == ["ClusterManagementAddOn"]

    await move(addon_fleet, cluster, "default")
    await addon_fleet.until(addon, is_gone)


async def test_addon_follows_what_its_strategy_and_the_set_come_to_say(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    addon = ObjectKey(
        cluster, await known(addon_fleet, "by-set", "ClusterSets", clusterSets=[{"name": f"set{addon_fleet.mark}"}])
    )
    await says(addon_fleet, addon.name, "False", "ClusterSetNotFound")

    name = await a_set(addon_fleet)
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"tier": addon_fleet.namespace}}}
    await addon_fleet.client.patch(
        MANAGED_CLUSTER_SETS, ObjectKey.cluster(name), {"spec": {"clusterSelector": selector}}
    )
    patch = {"metadata": {"labels": {"tier": addon_fleet.namespace}}}
    await addon_fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), patch)
    await addon_fleet.until(addon, exists)

    strategy: Object = {"spec": {"installStrategy": {"clusterSets": []}}}
    await addon_fleet.client.patch(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(addon.name), strategy)
    await addon_fleet.until(addon, is_gone)


async def test_removed_addon_of_a_set_returns_unless_its_cluster_opts_out(addon_fleet: AddonFleet) -> None:
    cluster, name = await addon_fleet.cluster(), await a_set(addon_fleet)
    addon = ObjectKey(cluster, await known(addon_fleet, "by-set", "ClusterSets", clusterSets=[{"name": name}]))
    await move(addon_fleet, cluster, name)
    first = await addon_fleet.until(addon, exists)

    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    uid = first["metadata"]["uid"]
    await addon_fleet.until(addon, lambda obj: obj is not None and obj["metadata"]["uid"] != uid)

    opt_out = {"metadata": {"annotations": OPT_OUT}}
    await addon_fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), opt_out)
    other = ObjectKey(cluster, await known(addon_fleet, "marker", "Manual"))
    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    await addon_fleet.enable(other.name, cluster)
    await addon_fleet.until(other, lambda obj: bool((obj or {})["metadata"].get("ownerReferences")))
    assert await addon_fleet.client.find(MANAGED_CLUSTER_ADDONS, addon) is None


async def test_strategy_that_becomes_manual_leaves_addons_where_they_are(addon_fleet: AddonFleet) -> None:
    cluster, name = await addon_fleet.cluster(), await a_set(addon_fleet)
    addon = ObjectKey(cluster, await known(addon_fleet, "by-set", "ClusterSets", clusterSets=[{"name": name}]))
    await move(addon_fleet, cluster, name)
    first = await addon_fleet.until(addon, exists)

    manual = {"spec": {"installStrategy": {"type": "Manual"}}}
    await addon_fleet.client.patch(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(addon.name), manual)
    await eventually(
        addon_fleet.client,
        CLUSTER_MANAGEMENT_ADDONS,
        ObjectKey.cluster(addon.name),
        lambda obj: find_condition(obj or {}, FOLLOWED) is None,
    )
    await move(addon_fleet, cluster, "default")
    found = await addon_fleet.until(addon, exists)
    assert found["metadata"]["uid"] == first["metadata"]["uid"]


async def test_addon_enabled_by_hand_goes_with_its_kind(addon_fleet: AddonFleet) -> None:
    name = await known(addon_fleet, "by-hand", "Manual")
    addon = await addon_fleet.enable(name, await addon_fleet.cluster())
    await addon_fleet.until(addon, lambda obj: bool((obj or {})["metadata"].get("ownerReferences")))

    await addon_fleet.client.delete(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(name))

    await addon_fleet.until(addon, is_gone)


async def test_addon_follows_the_decisions_of_its_placements(addon_fleet: AddonFleet) -> None:
    await establish_crds(addon_fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    one, other = await addon_fleet.cluster(), await addon_fleet.cluster()
    await decide(addon_fleet, "near", one)
    rows = [{"namespace": addon_fleet.namespace, "name": name} for name in ("near", "far")]
    name = await known(addon_fleet, "placed", "Placements", placements=rows)

    await says(addon_fleet, name, "True", "PlacementsFollowed")
    await addon_fleet.until(ObjectKey(one, name), exists)
    await decide(addon_fleet, "far", other)
    await addon_fleet.until(ObjectKey(other, name), exists)
    await decide(addon_fleet, "near")

    await addon_fleet.until(ObjectKey(one, name), is_gone)
    assert await addon_fleet.client.find(MANAGED_CLUSTER_ADDONS, ObjectKey(other, name)) is not None


@pytest.mark.planes("embedded")  # a control plane that tests share may serve decisions already
async def test_placements_without_decisions_are_reported_and_followed_once_decided(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    placement = {"namespace": addon_fleet.namespace, "name": "near"}
    addon = ObjectKey(cluster, await known(addon_fleet, "placed", "Placements", placements=[placement]))
    await says(addon_fleet, addon.name, "False", "PlacementsNotServed")

    await establish_crds(addon_fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    await decide(addon_fleet, "near", cluster)

    await addon_fleet.until(addon, exists)
    await says(addon_fleet, addon.name, "True", "PlacementsFollowed")


@pytest.mark.planes("embedded")  # tests share the definition on a shared control plane
async def test_addons_stay_when_decisions_can_be_known_no_longer(addon_fleet: AddonFleet) -> None:
    await establish_crds(addon_fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    cluster = await addon_fleet.cluster()
    await decide(addon_fleet, "near", cluster)
    placement = {"namespace": addon_fleet.namespace, "name": "near"}
    addon = ObjectKey(cluster, await known(addon_fleet, "placed", "Placements", placements=[placement]))
    await addon_fleet.until(addon, exists)

    await addon_fleet.client.delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(DECISIONS))

    await says(addon_fleet, addon.name, "False", "PlacementsNotServed")
    assert await addon_fleet.client.find(MANAGED_CLUSTER_ADDONS, addon) is not None


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
async def test_hub_without_access_to_decisions_reports_it_and_does_the_rest(addon_fleet: AddonFleet) -> None:
    await addon_fleet.members.stop(addon_fleet.hub)
    await establish_crds(addon_fleet.client, [DECISIONS], manager=prerequisites.FIELD_MANAGER)
    hub = Client(Refusing(addon_fleet.plane.fresh_client().transport, PLACEMENT_DECISIONS.plural))
    options = HubOptions(settings=AUTOMATIC, auto_approval=True, elect=False, install=False)
    work = run_hub(hub, options, clock=addon_fleet.plane.clock, random=Random(1), extensions=[hub_addon_controllers])
    addon_fleet.members.tasks.append(asyncio.create_task(work))

    cluster = await addon_fleet.cluster()
    name = await known(addon_fleet, "placed", "Placements", placements=[{"namespace": "a", "name": "b"}])

    await says(addon_fleet, name, "False", "PlacementsNotReadable")
    await addon_fleet.refreshed(await addon_fleet.enable("reporter", cluster))
