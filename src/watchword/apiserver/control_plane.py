"""A whole control plane in one object: kinds, store, access rules, controllers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from watchword.api.http import Request, Response
from watchword.apiserver.access_control import AccessControl, AccessControlFactory
from watchword.apiserver.background import BackgroundTasks
from watchword.apiserver.crd.controller import CustomResourceController
from watchword.apiserver.discovery import DiscoveryHandler
from watchword.apiserver.kinds import BUILTINS
from watchword.apiserver.model import Handler, HandlerRequest, Now
from watchword.apiserver.registry.dependencies import VerbDependencies
from watchword.apiserver.registry.kind_table import KindTable
from watchword.apiserver.registry.managed_fields import ManagedFieldsTracker
from watchword.apiserver.registry.pipeline import Pipeline
from watchword.apiserver.registry.registry import ObjectRegistry, verbs
from watchword.apiserver.registry.system_fields import Entropy
from watchword.apiserver.server import ApiServer, ApiServerConfig, Observe, RateLimiter
from watchword.apiserver.serving.health import HealthHandler
from watchword.apiserver.serving.metrics import MetricsHandler
from watchword.apiserver.serving.resources import ResourceServer
from watchword.apiserver.serving.responses import ResponseBuilder
from watchword.apiserver.store.model import Store
from watchword.apiserver.watching.watch import BOOKMARK_EVERY

if TYPE_CHECKING:
    from watchword.apiserver.openapi import OpenApiHandler


class ControlPlane:
    """A Kubernetes API over a store, as tests, fleets and the command line start it.

    `compose` builds the access rules: `access_config.standard_access` everywhere but in tests of the verbs.
    """

    def __init__(  # noqa: PLR0913 - store, clock and access; the rest is named and seldom said
        self,
        store: Store,
        now: Now,
        compose: AccessControlFactory,
        *,
        entropy: Entropy = os.urandom,
        limit: RateLimiter | None = None,
        observe: Observe | None = None,
        bookmark_every: float = BOOKMARK_EVERY,
    ) -> None:
        self.store = store
        self.now = now
        self.kinds = KindTable(BUILTINS)
        self.registry = ObjectRegistry(store, self.kinds, now=now, entropy=entropy)
        self.definitions = CustomResourceController(self.registry, self.kinds, now)
        self.background = BackgroundTasks(())
        self.health = HealthHandler(lambda: self.background.status)
        self.metrics = MetricsHandler(lambda: self.background.status)
        self._openapi_documents: OpenApiHandler | None = None
        self._bookmark_every = bookmark_every
        self._access = compose(self.registry)
        self._server = self._compose_server(entropy, limit, observe)

    async def start(self) -> None:
        """Start the controllers; afterwards requests are handled as on a running cluster."""
        await self.definitions.start()  # first: the others follow every kind there is
        for service in self._access.services:
            await service.start()
        await self.background.start()
        self.health.ready = True

    async def stop(self) -> None:
        """End the controllers and close the store."""
        self.health.ready = False
        await self.background.stop()
        for service in reversed(self._access.services):
            await service.stop()
        await self.definitions.stop()
        await self.store.close()

    async def handle(self, request: Request) -> Response:
        """Handle one request."""
        return await self._server.handle(request)

    def _compose_server(self, entropy: Entropy, limit: RateLimiter | None, observe: Observe | None) -> ApiServer:
        access, objects = self._access, self.registry.objects
        pipeline = Pipeline(access.mutating, access.validating)
        tools = VerbDependencies(
            objects, self.kinds, pipeline, ManagedFieldsTracker(self.now), self.now, entropy, self._bookmark_every
        )
        return ApiServer(
            ApiServerConfig(
                authenticate=access.authenticate,
                authorizer=access.authorizer,
                kinds=self.kinds,
                resources=ResourceServer(verbs(tools), ResponseBuilder(objects, self.now), access.authorizer),
                handlers=access.handlers,
                paths={**self._documents(), **access.paths},
                limit=limit,
                observe=observe,
                now=self.now,
            )
        )

    async def _openapi(self, request: HandlerRequest) -> Response:
        """Serve documents that the first request builds."""
        if self._openapi_documents is None:
            from watchword.apiserver.openapi import OpenApiHandler

            self._openapi_documents = OpenApiHandler(self.kinds.all)
        return await self._openapi_documents.handle(request)

    def _documents(self) -> Mapping[str, Handler]:
        discovery = DiscoveryHandler(self.kinds.all, lambda: self.kinds.generation, "")
        return {
            "/api": discovery.handle,
            "/api/": discovery.handle,
            "/apis": discovery.handle,
            "/apis/": discovery.handle,
            "/version": discovery.handle,
            "/openapi/": self._openapi,
            "/healthz": self.health.handle,
            "/healthz/": self.health.handle,
            "/livez": self.health.handle,
            "/livez/": self.health.handle,
            "/readyz": self.health.handle,
            "/readyz/": self.health.handle,
            "/metrics": self.metrics.handle,
        }


__all__ = ["AccessControl", "ControlPlane"]
