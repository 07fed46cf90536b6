"""Composes the access rules of a standard control plane: authentication, authorization, admission, controllers."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct, field

from watchword.api.http import Response
from watchword.api.meta import Resource
from watchword.apiserver.access import chain, service_accounts
from watchword.apiserver.access.bootstrap_policy import RbacBootstrap
from watchword.apiserver.access.bootstrap_tokens import BootstrapTokenAuthenticator
from watchword.apiserver.access.rbac import Authorizer, RbacAuthorizer, RbacIndex
from watchword.apiserver.access.tokens import (
    KEY_SET_PATH,
    IssuerDiscovery,
    TokenIssuer,
    TokenKeys,
    TokenLimits,
    TokenRequestHandler,
    discovery_handlers,
)
from watchword.apiserver.admission.catalog import admission_steps
from watchword.apiserver.admission.policies import AdmissionPolicies
from watchword.apiserver.admission.signing_requests import LONGEST_LIFETIME
from watchword.apiserver.controllers.catalog import CONTROLLERS, BuiltInControllers, ControllerContext
from watchword.apiserver.controllers.event_expiry import EVENT_TTL
from watchword.apiserver.kinds.build import REVIEWS
from watchword.apiserver.serving.model import Admit, Authenticate, Handler, HandlerRequest, Now, Registry, Service
from watchword.apiserver.serving.server import ResourceRoute
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate
from watchword.pki.jwt import TokenSigner


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
    client_authorities: Callable[[], Sequence[Certificate]] | None = None  # default: the signing CA alone
    issuer: str = "https://kubernetes.default.svc"
    api_audiences: tuple[str, ...] = ()  # default: the issuer
    key_set_url: str = ""  # default: under the issuer
    admin_tokens: tuple[chain.StaticToken, ...] = ()
    token_limits: TokenLimits = field(default_factory=TokenLimits)
    certificate_lifetime: timedelta = LONGEST_LIFETIME
    event_ttl: timedelta = EVENT_TTL
    reviewer: chain.TokenReviewer | None = None
    controllers: tuple[str, ...] = tuple(CONTROLLERS)

    @property
    def audiences(self) -> tuple[str, ...]:
        return self.api_audiences or (self.issuer,)

    def trusted_authorities(self) -> Sequence[Certificate]:
        if self.client_authorities is not None:
            return self.client_authorities()
        return (self.authority().certificate,)


def access_control_factory(
    rules: AccessConfig, *, now: Now, entropy: Callable[[int], bytes]
) -> Callable[[Registry], AccessControl]:

    def build(registry: Registry) -> AccessControl:
        index = RbacIndex()
        authorizer = RbacAuthorizer(index)
        tokens = token_chain(rules, registry, now)
        issuer = TokenIssuer(rules.issuer, TokenSigner(rules.token_keys.signing))
        policies = AdmissionPolicies(registry, authorizer)
        steps = admission_steps(registry, authorizer, policies, now=now, entropy=entropy)
        parts = ControllerContext(
            registry,
            now,
            authorizer,
            rules.authority,
            rules.root_bundle,
            issuer,
            rules.certificate_lifetime,
            rules.event_ttl,
        )
        return AccessControl(
            authenticate=chain.RequestAuthenticator(
                tokens, chain.CertificateAuthenticator(rules.trusted_authorities, now)
            ),
            authorizer=authorizer,
            mutating=steps.mutating,
            validating=steps.validating,
            handlers={
                **_reviews(tokens, authorizer, now),
                ("", "serviceaccounts", "token"): TokenRequestHandler(
                    registry, issuer, rules.audiences, now, rules.token_limits, policies
                ),
            },
            paths=discovery_handlers(_discovery(rules)),
            services=(RbacBootstrap(registry, index), policies, BuiltInControllers(parts, rules.controllers)),
        )

    return build


def token_chain(rules: AccessConfig, registry: Registry, now: Now) -> chain.TokenChain:
    """Return every kind of bearer token, the most frequent first; no token is of two kinds."""
    bound = service_accounts.TokenTrust((rules.issuer,), rules.audiences, rules.token_keys.verifier)
    legacy = service_accounts.TokenTrust((service_accounts.LEGACY_ISSUER,), rules.audiences, rules.token_keys.verifier)
    authenticators: list[chain.TokenAuthenticator] = [
        chain.StaticTokenAuthenticator(rules.admin_tokens),
        service_accounts.ServiceAccountTokenAuthenticator(registry, bound, now),
        service_accounts.LegacyTokenAuthenticator(registry, legacy, now),
        BootstrapTokenAuthenticator(registry, now),
    ]
    if rules.reviewer is not None:
        authenticators.append(chain.WebhookTokenAuthenticator(rules.reviewer, rules.audiences, now))
    return chain.TokenChain(tuple(authenticators), rules.audiences)


def _reviews(tokens: chain.TokenChain, authorizer: RbacAuthorizer, now: Now) -> dict[ResourceRoute, Handler]:
    made: dict[Resource, Handler] = {}

    def answerer(resource: Resource) -> Handler:
        async def answer(request: HandlerRequest) -> Response:
            if not made:
                from watchword.apiserver.access.reviews import review_handlers

                made.update(review_handlers(tokens, authorizer, now))
            return await made[resource](request)

        return answer

    reviewed = list(REVIEWS)
    return {(resource.group, resource.plural, ""): answerer(resource) for resource in reviewed}


def _discovery(rules: AccessConfig) -> IssuerDiscovery:
    url = rules.key_set_url or rules.issuer.rstrip("/") + KEY_SET_PATH
    return IssuerDiscovery(rules.issuer, url, lambda: rules.token_keys.public)
