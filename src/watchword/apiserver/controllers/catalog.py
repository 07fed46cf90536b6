"""The built-in controllers as data, and the service that runs them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct, field

from watchword.apiserver.access.rbac import Authorizer
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.admission.signing_requests import LONGEST_LIFETIME
from watchword.apiserver.controllers.certificate_requests import CertificateRequestController
from watchword.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from watchword.apiserver.controllers.event_expiry import EVENT_TTL, EventExpiryController
from watchword.apiserver.controllers.garbage_collection import AllKindsWatch, GarbageCollector
from watchword.apiserver.controllers.legacy_tokens import LegacyTokenController
from watchword.apiserver.controllers.namespaces import NamespaceDefaultsController, NamespaceLifecycleController
from watchword.apiserver.controllers.worker import BuiltInController, ControllerService
from watchword.apiserver.serving.model import Now, Registry, Service
from watchword.pki.authority import Authority

CONTROLLERS: Mapping[str, Callable[[ControllerContext, AllKindsWatch], BuiltInController]] = {
    "cluster-role-aggregation": lambda context, _: ClusterRoleAggregationController(context.registry),
    "namespace-lifecycle": lambda context, all_kinds_watch: NamespaceLifecycleController(
        context.registry, all_kinds_watch, context.now
    ),
    "garbage-collection": lambda context, all_kinds_watch: GarbageCollector(context.registry, all_kinds_watch),
    "namespace-defaults": lambda context, _: NamespaceDefaultsController(context.registry, context.root_bundle),
    "legacy-tokens": lambda context, _: LegacyTokenController(context.registry, context.issuer, context.root_bundle),
    "certificate-requests": lambda context, _: CertificateRequestController(
        context.registry, context.authorizer, context.authority, context.now, context.certificate_lifetime
    ),
    "event-expiry": lambda context, _: EventExpiryController(context.registry, context.now, context.event_ttl),
}
"""Every built-in controller; a plane may run fewer."""


class ControllerContext(Struct, frozen=True):
    """Everything of one control plane that its controllers work with."""

    registry: Registry
    now: Now
    authorizer: Authorizer
    authority: Callable[[], Authority]  # signs client and node certificates; read each time, for rotation
    root_bundle: Callable[[], bytes]  # PEM: what clients verify this plane by
    issuer: TokenIssuer
    certificate_lifetime: timedelta = LONGEST_LIFETIME
    event_ttl: timedelta = EVENT_TTL


class BuiltInControllers(Struct):
    """Starts every controller, then shows them the world; stops them in reverse."""

    context: ControllerContext
    names: tuple[str, ...] = tuple(CONTROLLERS)
    _running: list[Service] = field(default_factory=list)

    async def start(self) -> None:
        all_kinds_watch = AllKindsWatch(self.context.registry)
        registry = self.context.registry
        self._running = [
            ControllerService(registry, CONTROLLERS[name](self.context, all_kinds_watch)) for name in self.names
        ]
        for controller in self._running:
            await controller.start()
        self._running.append(all_kinds_watch)
        await all_kinds_watch.start()

    async def stop(self) -> None:
        while self._running:
            await self._running.pop().stop()
