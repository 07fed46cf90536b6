"""A registry in memory with the built-in controllers at work, in virtual time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, NAMESPACES
from watchword.apiserver.access.bootstrap_policy import ensure_bootstrap_policy
from watchword.apiserver.access.config import BuiltInControllers
from watchword.apiserver.access.rbac import RbacAuthorizer, RbacIndex
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.serving.object_storage import KindTable
from watchword.apiserver.serving.registry import ObjectRegistry
from watchword.apiserver.store.memory import MemoryStore
from watchword.pki.authority import Authority
from watchword.pki.jwt import TokenSigner
from watchword.pki.keys import PrivateKey
from watchword.testing.virtual_time import VirtualClock


class ControllerHarness:
    """What tests arrange and look at."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.registry = ObjectRegistry(MemoryStore(), KindTable(BUILTINS), now=self.clock.now, entropy=os.urandom)
        self.authority = Authority.make("client-ca", now=self.clock.now())
        self.bundle = self.authority.certificate.pem
        index = RbacIndex()
        index.follow(self.registry)
        self.controllers = BuiltInControllers(
            registry=self.registry,
            now=self.clock.now,
            authorizer=RbacAuthorizer(index),
            authority=lambda: self.authority,
            root_bundle=lambda: self.bundle,
            issuer=TokenIssuer("https://issuer.test", TokenSigner(PrivateKey.generate())),
        )

    async def has(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        """Create an object and let the controllers react."""
        created = await self.registry.create(resource, resource.manifest(ObjectKey(namespace, name), **fields))
        await self.settles()
        return created

    async def has_owned(self, name: str, *owners: Object, block: bool = False, **metadata: Any) -> Object:
        """Create a ConfigMap in `default` that these objects own."""
        refs = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": block,
            }
            for owner in owners
        ]
        return await self.has(CONFIG_MAPS, name, "default", metadata={"ownerReferences": refs, **metadata})

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return self.registry.get(resource, ObjectKey(namespace, name))

    def names(self, resource: Resource, namespace: str = "") -> set[str]:
        return {obj["metadata"]["name"] for obj in self.registry.list(resource, namespace)}

    async def binds(self, role: str, group: str) -> None:
        """Bind a ClusterRole to a group."""
        group_row = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        await self.has(CLUSTER_ROLE_BINDINGS, f"{role}-{group}", roleRef=ref, subjects=[group_row])

    async def settles(self) -> None:
        """Let everything that is due now happen: virtual time moves only when nothing is left to do."""
        await self.elapses(timedelta(milliseconds=1))

    async def elapses(self, duration: timedelta) -> None:
        await asyncio.sleep(duration.total_seconds())


@pytest.fixture
async def harness() -> AsyncIterator[ControllerHarness]:
    found = ControllerHarness()
    await ensure_bootstrap_policy(found.registry)
    await found.controllers.start()
    await found.settles()
    assert "default" in found.names(NAMESPACES)
    yield found
    await found.controllers.stop()
