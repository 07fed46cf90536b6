"""Upgrades the hub and the agents of a cluster to another image: first the plan, then its steps."""

from datetime import timedelta

from msgspec import Struct, field

from watchword.admin.apply import apply_all, list_if_served
from watchword.admin.hub_setup import HubSetup
from watchword.admin.init import HubInitializer, InitOptions
from watchword.admin.workloads import FIELD_MANAGER, await_deployments, operator_objects, release_image
from watchword.api.meta import Object, ObjectKey, Resource, mapping_at
from watchword.api.names import IMAGE
from watchword.api.resources import CLUSTER_MANAGERS, DEPLOYMENTS, KLUSTERLETS
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.discover import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.operator.klusterlet import agent_deployment, namespace_of
from watchword.operator.rendering import OPERATOR
from watchword.runtime.clock import Clock


class UpgradeStep(Struct, frozen=True):
    """One deployed part of a cluster, its image and the wanted one."""

    resource: Resource
    found: Object
    wanted: str

    @property
    def what(self) -> str:
        name = self.found["metadata"]["name"]
        return "hub" if self.resource is CLUSTER_MANAGERS else f"agent {name}"

    @property
    def current(self) -> str:
        return str(mapping_at(self.found, "spec").get("imagePullSpec") or IMAGE)

    @property
    def is_needed(self) -> bool:
        return self.current != self.wanted


class Upgrader(Struct, frozen=True):
    """Upgrades one cluster: its hub first, because a hub serves agents of an earlier release."""

    client: Client
    clock: Clock
    progress: Progress = field(default=ignore_progress)

    async def plan(self, image: str) -> list[UpgradeStep]:
        """Return the hub, if this cluster is one, and its agents; without an image, that of this release is wanted."""
        deployed = [
            (resource, found)
            for resource in (CLUSTER_MANAGERS, KLUSTERLETS)
            for found in await list_if_served(self.client, resource)
        ]
        wanted = image or (await release_image(self.client) if deployed else "")
        return [UpgradeStep(resource, found, wanted) for resource, found in deployed]

    async def apply(self, step: UpgradeStep, info: ClusterInfo, patience: timedelta) -> None:
        """Change the image and wait until its pods run; `NotReady` when they do not in time."""
        if step.resource is CLUSTER_MANAGERS:
            options = InitOptions(HubSetup(info=info, image=step.wanted), None, probe=False, wait=patience)
            await HubInitializer(self.client, self.clock, self.progress).run(options)
            return
        deployed = await self.client.find(DEPLOYMENTS, OPERATOR) is not None
        if deployed:
            rows = await operator_objects(self.client, step.wanted, agent_namespace=namespace_of(step.found))
            await apply_all(self.client, rows, manager=FIELD_MANAGER)
        changed = await self.client.patch(
            KLUSTERLETS, ObjectKey.of(step.found), {"spec": {"imagePullSpec": step.wanted}}
        )
        if deployed:
            agent = ObjectKey.of(agent_deployment(changed)[1])
            await await_deployments(self.client, [OPERATOR, agent], patience, self.progress)
