"""Composes the access rules of a standard control plane: authentication, authorization, admission, controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct, field

from watchword.apiserver.access import chain, service_accounts
from watchword.apiserver.access.bootstrap_policy import RbacBootstrap
from watchword.apiserver.access.bootstrap_tokens import BootstrapTokenAuthenticator
from watchword.apiserver.access.rbac import Authorizer, RbacAuthorizer, RbacIndex
from watchword.apiserver.access.reviews import review_handlers
from watchword.apiserver.access.service_accounts import TokenKeys
from watchword.apiserver.access.tokens import TokenIssuer, TokenRequestHandler, discovery_handlers
from watchword.apiserver.admission.catalog import admission_steps
from watchword.apiserver.admission.policies import AdmissionPolicies
from watchword.apiserver.controllers.certificate_requests import CertificateRequestController
from watchword.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from watchword.apiserver.controllers.event_expiry import EVENT_TTL, EventExpiryController
from watchword.apiserver.controllers.garbage_collection import AllKindsWatch, GarbageCollector
from watchword.apiserver.controllers.legacy_tokens import LegacyTokenController
from watchword.apiserver.controllers.namespaces import NamespaceDefaultsController, NamespaceLifecycleController
from watchword.apiserver.controllers.worker import Controller
from watchword.apiserver.serving.model import Admit, Authenticate, Entropy, Handler, Now, Registry, Service
from watchword.apiserver.serving.server import ResourceRoute
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate
from watchword.pki.jwt import TokenSigner

CONTROLLERS: Mapping[str, Callable[[BuiltInControllers], Controller[Any]]] = {
    "cluster-role-aggregation": lambda plane: ClusterRoleAggregationController(plane.registry),
    "namespace-lifecycle": lambda plane: NamespaceLifecycleController(plane.registry, plane.all_kinds, plane.now),
    "garbage-collection": lambda plane: GarbageCollector(plane.registry, plane.all_kinds),
    "namespace-defaults": lambda plane: NamespaceDefaultsController(plane.registry, plane.root_bundle),
    "legacy-tokens": lambda plane: LegacyTokenController(plane.registry, plane.issuer, plane.root_bundle),
    "certificate-requests": lambda plane: CertificateRequestController(
        plane.registry, plane.authorizer, plane.authority, plane.now
    ),
    "event-expiry": lambda plane: EventExpiryController(plane.registry, plane.now, plane.event_ttl),
}
"""Every built-in controller; a plane may run fewer."""


class BuiltInControllers(Struct, eq=False, dict=True):
    """Starts every controller, then lets them see every object; stops them in reverse order."""

    registry: Registry
    now: Now
    authorizer: Authorizer
    authority: Callable[[], Authority]  # signs client and node certificates; read each time, for rotation
    root_bundle: Callable[[], bytes]  # PEM: what clients verify this plane by
    issuer: TokenIssuer
    event_ttl: timedelta = EVENT_TTL
    names: tuple[str, ...] = tuple(CONTROLLERS)
    _running: list[Service] = field(default_factory=list)

    async def start(self) -> None:
        self.all_kinds: AllKindsWatch = AllKindsWatch(self.registry)
        self._running = [*(CONTROLLERS[name](self) for name in self.names), self.all_kinds]
        for service in self._running:
            await service.start()

    async def stop(self) -> None:
        while self._running:
            await self._running.pop().stop()


class AccessControl(Struct, frozen=True):
    """Authentication, authorization, admission, and the services that run beside the requests."""

    authenticate: Authenticate
    authorizer: Authorizer
    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()
    handlers: Mapping[ResourceRoute, Handler] = field(default_factory=dict)
    paths: Mapping[str, Handler] = field(default_factory=dict)
    services: tuple[Service, ...] = ()


AccessControlFactory = Callable[[Registry], AccessControl]
"""Makes the access rules of a control plane from its registry."""


class AccessConfig(Struct, frozen=True):
    """What the operator of a control plane chooses about access."""

    token_keys: TokenKeys
    authority: Callable[[], Authority]  # the CA of client certificates; read each time, for rotation
    root_bundle: Callable[[], bytes]  # PEM: what clients verify this plane by
    client_authorities: Callable[[], Sequence[Certificate]]  # what client certificates are verified by
    issuer: str = "https://kubernetes.default.svc"
    admin_tokens: tuple[chain.StaticToken, ...] = ()
    event_ttl: timedelta = EVENT_TTL
    reviewer: chain.TokenReviewer | None = None
    controllers: tuple[str, ...] = tuple(CONTROLLERS)

    @property
    def audiences(self) -> tuple[str, ...]:
        return (self.issuer,)


def access_control_factory(rules: AccessConfig, *, now: Now, entropy: Entropy) -> AccessControlFactory:
    def build(registry: Registry) -> AccessControl:
        index = RbacIndex()
        authorizer = RbacAuthorizer(index)
        tokens = token_chain(rules, registry, now)
        issuer = TokenIssuer(rules.issuer, TokenSigner(rules.token_keys.signing))
        policies = AdmissionPolicies(registry, authorizer)
        mutating, validating = admission_steps(registry, authorizer, policies, now=now, entropy=entropy)
        controllers = BuiltInControllers(
            registry, now, authorizer, rules.authority, rules.root_bundle, issuer, rules.event_ttl, rules.controllers
        )
        return AccessControl(
            authenticate=chain.RequestAuthenticator(
                tokens, chain.CertificateAuthenticator(rules.client_authorities, now)
            ),
            authorizer=authorizer,
            mutating=mutating,
            validating=validating,
            handlers={
                **{
                    (resource.group, resource.plural, ""): handler
                    for resource, handler in review_handlers(tokens, authorizer, now).items()
                },
                ("", "serviceaccounts", "token"): TokenRequestHandler(registry, issuer, rules.audiences, now, policies),
            },
            paths=discovery_handlers(rules.issuer, rules.token_keys),
            services=(RbacBootstrap(registry, index), policies, controllers),
        )

    return build


def token_chain(rules: AccessConfig, registry: Registry, now: Now) -> chain.TokenChain:
    """Return every kind of bearer token, the most frequent first; no token is of two kinds."""
    bound = service_accounts.TokenTrust(rules.issuer, rules.audiences, rules.token_keys, now)
    legacy = service_accounts.TokenTrust(service_accounts.LEGACY_ISSUER, rules.audiences, rules.token_keys, now)
    authenticators: list[chain.TokenAuthenticator] = [
        chain.StaticTokenAuthenticator(rules.admin_tokens),
        service_accounts.ServiceAccountTokenAuthenticator(registry, bound),
        service_accounts.LegacyTokenAuthenticator(registry, legacy),
        BootstrapTokenAuthenticator(registry, now),
    ]
    if rules.reviewer is not None:
        authenticators.append(chain.WebhookTokenAuthenticator(rules.reviewer, rules.audiences, now))
    return chain.TokenChain(tuple(authenticators), rules.audiences)
