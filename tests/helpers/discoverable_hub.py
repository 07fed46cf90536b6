"""A control plane with discovery set up: tokens, cluster-info, controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from watchword.api.bootstrap import CLUSTER_INFO, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.evidence import connect_with_token
from watchword.discovery.cluster_info import ClusterAuthorities, ClusterInfo
from watchword.discovery.controllers import SCOPES, discovery_controllers
from watchword.discovery.discover import HttpsClientFactory
from watchword.discovery.setup import FIELD_MANAGER, DiscoverySetup, discovery_manifests
from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.endpoint import Endpoint
from watchword.pki.certificates import split_bundle
from watchword.runtime.cache import Cache
from watchword.runtime.controller import Controller
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.manifests import apply_manifests
from watchword.runtime.metrics import Metrics
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane


@dataclass
class DiscoverableHub:
    """A cluster with discovery: what it publishes, and functions to change it."""

    plane: Plane
    info: ClusterInfo
    client_factory: HttpsClientFactory = field(default_factory=HttpsClientFactory)

    @property
    def client(self) -> Client:
        """The administrator's client."""
        return self.plane.client()

    async def has_token(self, *, ttl: timedelta | None = timedelta(hours=1), **fields: Any) -> BootstrapToken:
        """Make a token; fields are those of `TokenRecord`."""
        token = fields.pop("token", None) or BootstrapToken.generate()
        expires = None if ttl is None else self.plane.clock.now() + ttl
        await TokenStore(self.client).create(TokenRecord(token, expires=expires, **fields))
        return token

    async def signed_for(self, *tokens: BootstrapToken) -> Object:
        """Wait until cluster-info is signed for exactly these tokens."""
        wanted = {f"jws-kubeconfig-{token.id}" for token in tokens}
        return await eventually(
            self.client, CONFIG_MAPS, CLUSTER_INFO, lambda obj: obj is not None and set(signatures(obj)) == wanted
        )

    def anonymous(self) -> Client:
        """Return a client without a credential; the caller closes it."""
        return self.client_factory.verified(self.plane.server, self.plane.ca_pem)

    def holding(self, token: BootstrapToken) -> Client:
        """Return a client with this token; the caller closes it."""
        return connect_with_token(Endpoint(self.plane.server, self.plane.ca_pem))(Sensitive(token.reveal()))

    @asynccontextmanager
    async def controllers(self) -> AsyncIterator[None]:
        """Run the signer and the cleaner."""
        cache = Cache.of(self.client)
        for resource, scope in SCOPES:
            cache.informer(resource, scope)
        clock, authorities = self.plane.clock, ClusterAuthorities(self.plane.ca_pem)
        events = EventRecorder(self.client, "test", "test", clock=clock, random=Random(1), counts=Metrics())
        specs = discovery_controllers(cache, self.client, clock, events, authorities=authorities)
        running = [Controller(spec, metrics=Metrics(), random=Random(1)) for spec in specs]
        for controller in running:
            controller.subscribe({"": cache})
        tasks = [asyncio.ensure_future(cache.run()), *(asyncio.ensure_future(part.run()) for part in running)]
        try:
            await cache.sync()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def signatures(config_map: Object) -> dict[str, str]:
    """Return the signatures on a cluster-info, by key."""
    return {k: v for k, v in (config_map.get("data") or {}).items() if k.startswith("jws-kubeconfig-")}


@asynccontextmanager
async def a_discoverable_hub(plane: Plane) -> AsyncIterator[DiscoverableHub]:
    """Set up discovery on a control plane and remove it again, tokens included."""
    info = ClusterInfo((plane.server,), split_bundle(plane.ca_pem))
    setup = DiscoverySetup(info)
    await apply_manifests(plane.client(), discovery_manifests(setup), manager=FIELD_MANAGER)
    try:
        yield DiscoverableHub(plane, info)
    finally:
        for resource, obj in discovery_manifests(setup):
            if resource is not NAMESPACES:
                await plane.client().request("DELETE", resource.path(ObjectKey.of(obj)))
        selector = {"fieldSelector": f"type={TOKEN_SECRET_TYPE}"}
        await plane.client().request("DELETE", SECRETS.path(namespace=TOKEN_SECRET_NAMESPACE), query=selector)
