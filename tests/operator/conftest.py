"""The operator at work on a control plane, with the rights that its manifests give it and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
from tests.helpers.collections import delete_collection

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import IMAGE, Label
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CRON_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.operator.bundles import BundleOptions, install_crds, operator_bundle
from watchword.operator.process import OperatorOptions, run_operator
from watchword.operator.rendering import MANAGED_BY, OPERATOR
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane


class Operated:
    """A cluster whose administrator applied the published manifests, and an operator with its own account."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.admin = plane.client()
        user = f"system:serviceaccount:{OPERATOR.namespace}:{OPERATOR.name}"
        groups = ("system:serviceaccounts", "system:authenticated")
        self.own: Client = plane.client(user, groups)
        self.stop = asyncio.Event()

    async def install(self, image: str) -> None:
        await install_crds(self.admin)
        for resource, obj in operator_bundle(BundleOptions(image)):
            if resource is not CUSTOM_RESOURCE_DEFINITIONS:
                await self.admin.apply(resource, obj, force=True)

    async def run(self) -> None:
        options = OperatorOptions(elect=False)
        await run_operator(self.own, options, clock=self.plane.clock, random=Random(1), stop=self.stop)

    async def has(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        return await self.admin.create(resource, resource.manifest(ObjectKey(namespace, name), **fields))

    async def until(
        self, resource: Resource, name: str, is_so: Callable[[Object | None], bool], namespace: str = ""
    ) -> Object:
        return await eventually(self.admin, resource, ObjectKey(namespace, name), is_so)

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return await self.admin.find(resource, ObjectKey(namespace, name))


@pytest.fixture
async def operated(plane: Plane, request: pytest.FixtureRequest) -> AsyncIterator[Operated]:
    await plane.controllers("garbage-collector-controller", "namespace-controller")
    found = Operated(plane)
    await found.install(getattr(request, "param", IMAGE))
    async with asyncio.TaskGroup() as group:
        group.create_task(found.run())
        yield found
        found.stop.set()
    await _clean(found.admin)


async def _clean(client: Client) -> None:
    """Take away what a test left, for others use the same control plane."""
    for resource in (KLUSTERLETS, CLUSTER_MANAGERS):
        for obj in (await client.list(resource)).items:
            await client.patch(resource, ObjectKey.of(obj), {"metadata": {"finalizers": None}})
        await delete_collection(client, resource)
    for namespace in BundleOptions().namespaces:
        for resource in (DEPLOYMENTS, CRON_JOBS, SECRETS, ROLE_BINDINGS):
            await delete_collection(client, resource, namespace=namespace)
        await delete_collection(
            client, SERVICE_ACCOUNTS, namespace=namespace, labels=f"{Label.MANAGED_BY}={MANAGED_BY}"
        )
