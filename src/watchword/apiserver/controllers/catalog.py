"""The built-in controllers as data, and the service that runs them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watchword.apiserver.controllers.certificate_requests import CertificateRequests
from watchword.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from watchword.apiserver.controllers.controller import Controller, Part
from watchword.apiserver.controllers.feed import Feed
from watchword.apiserver.controllers.garbage_collection import GarbageCollection
from watchword.apiserver.controllers.legacy_tokens import LegacyTokens
from watchword.apiserver.controllers.namespace_defaults import NamespaceDefaults
from watchword.apiserver.controllers.namespace_lifecycle import NamespaceLifecycle
from watchword.apiserver.controllers.parts import ControllerParts
from watchword.apiserver.model import Service

CONTROLLERS: Mapping[str, Callable[[ControllerParts, Feed], Part]] = {
    "cluster-role-aggregation": lambda parts, _: ClusterRoleAggregation(parts.registry),
    "namespace-lifecycle": lambda parts, feed: NamespaceLifecycle(parts.registry, feed, parts.now),
    "garbage-collection": lambda parts, feed: GarbageCollection(parts.registry, feed),
    "namespace-defaults": lambda parts, _: NamespaceDefaults(parts.registry, parts.root_bundle),
    "legacy-tokens": lambda parts, _: LegacyTokens(parts.registry, parts.issuer, parts.root_bundle),
    "certificate-requests": lambda parts, _: CertificateRequests(
        parts.registry, parts.authorizer, parts.authority, parts.now, parts.certificate_lifetime
    ),
}
"""Every built-in controller; a plane may run fewer."""


@dataclass
class BuiltInControllers:
    """Starts every controller, then shows them the world; stops them in reverse."""

    parts: ControllerParts
    names: tuple[str, ...] = tuple(CONTROLLERS)
    _running: list[Service] = field(default_factory=list)

    async def start(self) -> None:
        """Start all of them."""
        feed = Feed(self.parts.registry)
        registry = self.parts.registry
        self._running = [Controller(registry, CONTROLLERS[name](self.parts, feed)) for name in self.names]
        for controller in self._running:
            await controller.start()
        self._running.append(feed)
        await feed.start()

    async def stop(self) -> None:
        """Stop all of them."""
        while self._running:
            await self._running.pop().stop()
