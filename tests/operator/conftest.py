"""The operator at work on a control plane, with the rights that its manifests give it and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, KLUSTERLETS
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.bundles import OPERATOR, operator_bundle
from watchword.operator.controllers import OperatorOptions, run_operator
from watchword.operator.installing import install
from watchword.testing.plane import Plane
from watchword.testing.waiting import eventually


class Operated:
    """A cluster whose administrator applied the published manifests, and an operator with its own account."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.admin = plane.client()
        user = f"system:serviceaccount:{OPERATOR.namespace}:{OPERATOR.name}"
        groups = ("system:serviceaccounts", "system:authenticated")
        self.own: Client = plane.client(user, groups)
        self.stop = asyncio.Event()

    async def install(self) -> None:
        await install(self.admin)
        for resource, obj in operator_bundle():
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
async def operated(plane: Plane) -> AsyncIterator[Operated]:
    await plane.controllers("garbage-collector-controller", "namespace-controller")
    found = Operated(plane)
    await found.install()
    async with asyncio.TaskGroup() as group:
        group.create_task(found.run())
        yield found
        found.stop.set()
    for klusterlet in (await found.admin.list(KLUSTERLETS)).items:
        await _drop(found.admin, KLUSTERLETS, klusterlet)


async def _drop(client: Client, resource: Resource, obj: Object) -> None:
    key = ObjectKey.of(obj)
    try:
        await client.patch(resource, key, {"metadata": {"finalizers": None}})
        await client.delete(resource, key)
    except NotFound:
        return
