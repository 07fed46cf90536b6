"""A hub and a managed cluster on which all is well, until a test breaks one thing."""

from __future__ import annotations

import base64
from datetime import timedelta
from functools import partial
from typing import Any

import pytest_asyncio
from msgspec import Struct
from tests.helpers.credential_fleet import CredentialFleet, a_condition
from tests.helpers.plane_image import install_once

from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.api.crds import MANAGED_CRDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, CLUSTER_LEASE, HUB_KUBECONFIG_SECRET, HUB_NAMESPACE, Label
from watchword.api.pull_secrets import CONFIGURATION
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    DEPLOYMENTS,
    KLUSTERLETS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.discovery.cluster_info import ClusterInfo
from watchword.health.facts import LOCKS
from watchword.operator.cluster_manager import CLUSTER_MANAGER
from watchword.operator.pull_secret_manifests import REGISTRY_AUTH
from watchword.operator.rendering import MANAGED_BY, OPERATOR
from watchword.pki.certificates import split_bundle
from watchword.runtime.manifests import establish_crds
from watchword.testing.plane import Plane

CONTROLLER = ObjectKey(HUB_NAMESPACE, "cluster-manager-controller")
IMAGE = "r.test/watchword:x"
KLUSTERLET = ObjectKey.cluster("klusterlet")
AGENT = ObjectKey("open-cluster-management-agent", "klusterlet-agent")
AGENT_SECRET = ObjectKey(AGENT.namespace, HUB_KUBECONFIG_SECRET)
BOOTSTRAP_SECRET = ObjectKey(AGENT.namespace, BOOTSTRAP_KUBECONFIG_SECRET)


class World(Struct, frozen=True):
    """A hub on which everything is well, until a test breaks one thing."""

    plane: Plane
    fleet: CredentialFleet

    async def patch(self, resource: Resource, key: ObjectKey, patch: Object, subresource: str = "") -> None:
        await self.plane.client().patch(resource, key, patch, subresource=subresource)

    async def delete(self, resource: Resource, key: ObjectKey) -> None:
        await self.plane.client().delete(resource, key)

    async def create(self, resource: Resource, obj: Object, status: Object | None = None) -> None:
        await self.plane.client().create(resource, obj)
        if status is not None:
            await self.patch(resource, ObjectKey.of(obj), {"status": status}, "status")

    async def say(self, resource: Resource, key: ObjectKey, type_: str, status: str, message: str = "M") -> None:
        """Set one condition of an object, as its controller would."""
        found = await self.plane.client().get(resource, key)
        kept = [row for row in found["status"].get("conditions", ()) if row["type"] != type_]
        row = {**a_condition(type_, status, "Said", message), "lastTransitionTime": rfc3339(self.now)}
        await self.patch(resource, key, {"status": {"conditions": [*kept, row]}}, "status")

    async def deploy(self, key: ObjectKey, *, replicas: int = 1, ready: bool = True, **state: Any) -> None:
        """Write a Deployment of ours with one pod, as a node would report them."""
        labels = {Label.MANAGED_BY: MANAGED_BY, "app": key.name}
        pod = {"serviceAccountName": key.name, "containers": [{"name": "main", "image": IMAGE}]}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": key.name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        available = int(ready) * replicas
        counted = {"replicas": replicas, "updatedReplicas": replicas, "availableReplicas": available}
        await self.create(
            DEPLOYMENTS, DEPLOYMENTS.manifest(key, metadata={"labels": labels}, spec=spec),
            {"observedGeneration": 1, **counted},
        )  # fmt: skip
        await self.plane.client().apply(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key), force=True)
        if replicas:
            name = ObjectKey(key.namespace, f"{key.name}-1")
            row = {
                "name": "main",
                "image": "r.test/watchword:x",
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                **state,
            }
            conditions = [{"type": "Ready", "status": str(ready)}]
            status = {"phase": "Running" if ready else "Pending", "conditions": conditions, "containerStatuses": [row]}
            await self.create(PODS, PODS.manifest(name, metadata={"labels": labels}, spec=pod), status)

    async def redeploy(self, key: ObjectKey, **how: Any) -> None:
        await self.delete(DEPLOYMENTS, key)
        for pod in (await self.plane.client().list(PODS, namespace=key.namespace)).items:
            await self.delete(PODS, ObjectKey.of(pod))
        await self.deploy(key, **how)

    async def renew(
        self, key: ObjectKey, ago: timedelta = timedelta(0), *, seconds: int = 15, holder: str | None = None
    ) -> None:
        renewed = rfc3339_micro(self.now - ago)
        spec = {
            "holderIdentity": f"{key.name}-1" if holder is None else holder,
            "leaseDurationSeconds": seconds,
            "renewTime": renewed,
        }
        await self.plane.client().apply(LEASES, LEASES.manifest(key, spec=spec), force=True)

    @property
    def now(self) -> Any:
        return self.plane.clock.now()


@pytest_asyncio.fixture
async def world(plane: Plane) -> World:
    client = plane.client()
    made = World(plane, CredentialFleet(client, plane.clock.now()))
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    await install_once(plane, "kinds of a hub", made.fleet.define_kinds)
    await set_up_hub(client, HubSetup(info, deploy=False))
    for namespace in (HUB_NAMESPACE, OPERATOR.namespace, CONFIGURATION.namespace, REGISTRY_AUTH.namespace):
        await client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace)), force=True)
    await made.deploy(OPERATOR)
    await made.deploy(CONTROLLER)
    for key in (LOCKS["the hub's controllers"], LOCKS["the operator"]):
        await made.renew(key)
    manager = ObjectKey.cluster(CLUSTER_MANAGER)
    rows = [a_condition("Applied", "True", "R", "M"), a_condition("Available", "True", "R", "M")]
    stamped = [{**row, "lastTransitionTime": rfc3339(made.now)} for row in rows]
    await made.patch(CLUSTER_MANAGERS, manager, {"status": {"conditions": stamped}}, "status")
    await made.fleet.cluster("edge")
    await made.renew(ObjectKey("edge", CLUSTER_LEASE), seconds=60)
    await made.fleet.addon("edge")
    await made.fleet.account("edge")
    await made.fleet.pull_secret("shop")
    return made


@pytest_asyncio.fixture
async def member(plane: Plane) -> World:
    """A cluster whose operator and agent run and whose agent waits for its first credential."""
    client = plane.client()
    made = World(plane, CredentialFleet(client, plane.clock.now()))
    await install_once(plane, "kinds of a member", partial(establish_crds, client, MANAGED_CRDS, manager="tests"))
    for namespace in (AGENT.namespace, OPERATOR.namespace):
        await client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace)), force=True)
    await made.deploy(OPERATOR)
    await made.deploy(AGENT)
    await made.renew(LOCKS["the operator"])
    rows = [a_condition(type_, "True", "R", "M") for type_ in ("Applied", "Available")]
    stamped = [{**row, "lastTransitionTime": rfc3339(made.now)} for row in rows]
    await made.create(
        KLUSTERLETS, KLUSTERLETS.manifest(KLUSTERLET, spec={"clusterName": "edge"}), {"conditions": stamped}
    )
    await made.create(SECRETS, SECRETS.manifest(BOOTSTRAP_SECRET, data={"kubeconfig": ""}))
    waiting = {"cluster-name": base64.b64encode(b"edge").decode()}
    await made.create(SECRETS, SECRETS.manifest(AGENT_SECRET, data=waiting))
    return made
