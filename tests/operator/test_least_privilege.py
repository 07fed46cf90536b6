"""The operator needs every right that it has: without any one of them, one of its functions fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from tests.operator.test_klusterlet import says

from watchword.api.crds.operator import CLUSTER_MANAGER, KLUSTERLET
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import AGENT_NAMESPACE, Finalizer
from watchword.api.rbac import RbacRule
from watchword.api.resources import (
    APPLIED_MANIFEST_WORKS,
    CLUSTER_MANAGERS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.operator.bundles import operator_bundle
from watchword.operator.process import OperatorOptions, run_operator
from watchword.operator.rbac import ELECTION_RIGHTS, OPERATOR_OWN_RIGHTS, OPERATOR_RIGHTS
from watchword.operator.rendering import OPERATOR
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import HasServer
from watchword.testing.errors import EventuallyTimeout
from watchword.testing.eventually import eventually, exists, is_gone
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # a dozen runs of an operator, in virtual time
EVERY_RIGHT = (*OPERATOR_RIGHTS, *OPERATOR_OWN_RIGHTS, *ELECTION_RIGHTS)
CLUSTER_MANAGER_KEY, KLUSTERLET_KEY = ObjectKey.cluster("cluster-manager"), ObjectKey.cluster("klusterlet")


async def apply_without(client: Client, missing: RbacRule | None) -> None:
    """Apply the published manifests without one rule."""
    for resource, obj in operator_bundle():
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            continue
        if resource in (ROLES, CLUSTER_ROLES) and ":operator" in obj["metadata"]["name"] and missing:
            kept = [rule for rule in obj["rules"] if rule != missing.rule]
            await client.apply(resource, {**obj, "rules": kept}, force=True)
        else:
            await client.apply(resource, obj, force=True)


@asynccontextmanager
async def an_operator(plane: Plane) -> AsyncIterator[None]:
    user = f"system:serviceaccount:{OPERATOR.namespace}:{OPERATOR.name}"
    own, stop = plane.client(user, ("system:serviceaccounts", "system:authenticated")), asyncio.Event()
    running = asyncio.create_task(run_operator(own, OperatorOptions(), clock=plane.clock, random=Random(1), stop=stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait({running}, timeout=60)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, KubeError, TimeoutError):
            await running


async def live(client: Client) -> None:
    """Let an operator do everything: install, deploy, repair, report, remove."""
    for definition in (KLUSTERLET, CLUSTER_MANAGER):
        await see(client, CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition), says("Established", "True"))
    await client.create(KLUSTERLETS, KLUSTERLETS.manifest(KLUSTERLET_KEY, spec={"clusterName": "edge"}))
    with_server = [driver.name for driver in CATALOG.drivers if isinstance(driver, HasServer)]
    drivers = [{"authType": name} for name in (CATALOG.default, *with_server)]
    spec = {"registrationConfiguration": {"registrationDrivers": drivers}}
    await client.create(CLUSTER_MANAGERS, CLUSTER_MANAGERS.manifest(CLUSTER_MANAGER_KEY, spec=spec))
    await see(client, KLUSTERLETS, KLUSTERLET_KEY, says("Applied", "True"))
    await see(client, CLUSTER_MANAGERS, CLUSTER_MANAGER_KEY, says("Applied", "True"))
    await disturb(client)
    await client.delete(KLUSTERLETS, KLUSTERLET_KEY)
    await client.delete(CLUSTER_MANAGERS, CLUSTER_MANAGER_KEY)
    await see(client, KLUSTERLETS, KLUSTERLET_KEY, is_gone)
    await see(client, CLUSTER_MANAGERS, CLUSTER_MANAGER_KEY, is_gone)
    await see(client, APPLIED_MANIFEST_WORKS, ObjectKey.cluster("abc-work"), is_gone)
    await see(client, SECRETS, ObjectKey(AGENT_NAMESPACE, "hub-kubeconfig-secret"), is_gone)


async def disturb(client: Client) -> None:
    data = {"kubeconfig": "e30=", "cluster-name": "ZWRnZQ=="}
    key = ObjectKey(AGENT_NAMESPACE, "hub-kubeconfig-secret")
    await client.create(SECRETS, SECRETS.manifest(key, data=data))
    await see(client, KLUSTERLETS, KLUSTERLET_KEY, says("HubConnectionDegraded", "False"))
    metadata = {"finalizers": [Finalizer.APPLIED_WORK]}
    spec = {"hubHash": "abc", "agentID": "x", "manifestWorkName": "work"}
    record = APPLIED_MANIFEST_WORKS.manifest(ObjectKey.cluster("abc-work"), metadata=metadata, spec=spec)
    await client.create(APPLIED_MANIFEST_WORKS, record)
    for resource, name in ((DEPLOYMENTS, "klusterlet-agent"), (SERVICE_ACCOUNTS, "klusterlet-sa")):
        await client.delete(resource, ObjectKey(AGENT_NAMESPACE, name))
        await see(client, resource, ObjectKey(AGENT_NAMESPACE, name), exists)


async def see(client: Client, resource: Resource, key: ObjectKey, is_so: object) -> Object:
    return await eventually(client, resource, key, is_so, within=90)  # type: ignore[arg-type]  # a predicate


async def test_the_rights_suffice(plane: Plane) -> None:
    await apply_without(plane.client(), None)

    async with an_operator(plane):
        await live(plane.client())


@pytest.mark.parametrize("missing", EVERY_RIGHT, ids=lambda right: f"{right.resources[0]} {right.verbs[0]}")
async def test_no_right_is_idle(plane: Plane, missing: RbacRule) -> None:
    await apply_without(plane.client(), missing)

    with pytest.raises((EventuallyTimeout, KubeError)):
        async with an_operator(plane):
            await live(plane.client())
