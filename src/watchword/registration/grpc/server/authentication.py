"""Who calls: a bearer token that the API server reviews, or a certificate of the server's own signer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.names import MANAGED_CLUSTERS_GROUP, agent_user, cluster_group
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube.access_reviews import UserIdentity, review_token
from watchword.kube.client import Client
from watchword.pki.certificates import Certificate, parse_certificate, verify_chain
from watchword.pki.errors import PkiError
from watchword.registration.grpc.server.expiring_map import ExpiringMap
from watchword.registration.grpc.server.refusals import RequestRefused
from watchword.runtime.clock import Clock

KNOWN_TOKEN_SECONDS = 60.0
REFUSED_TOKEN_SECONDS = 1.0
LONGEST_TOKEN = 16 * 1024
_BEARER = "bearer "
_AUTHENTICATED = "system:authenticated"


class CallerCredential(HiddenFields, frozen=True):
    """What a caller presents: nothing in it is trusted yet."""

    hidden = ("authorization",)

    authorization: str = ""  # the header; empty without one
    certificate: bytes = b""  # DER, as the TLS handshake delivered it; empty without one


class Caller(Struct, frozen=True):
    """An authenticated caller."""

    user: UserIdentity
    cluster: str = ""  # the only one that it may act for; empty for a bearer token, whose rights decide alone
    expires_at: datetime | None = None  # None: not known; the token is reviewed again


class Authenticator(Struct):
    """Authenticates callers; raises `RequestRefused` with code 401 otherwise.

    A bearer token is preferred to a certificate, as in Open Cluster Management.
    """

    client: Client
    clock: Clock
    roots: Callable[[], tuple[Certificate, ...]]  # the authorities of this moment
    _tokens: ExpiringMap[str, UserIdentity | None] = field(default_factory=lambda: ExpiringMap(4096))

    async def authenticate(self, presented: CallerCredential) -> Caller:
        """Return who presents a credential."""
        if presented.authorization:
            return Caller(await self._review(presented.authorization))
        if presented.certificate:
            return self._verify(presented.certificate)
        raise RequestRefused(401, "the request has neither a bearer token nor a client certificate")

    async def _review(self, authorization: str) -> UserIdentity:
        if authorization[: len(_BEARER)].lower() != _BEARER or len(authorization) > LONGEST_TOKEN:
            raise RequestRefused(401, "the authorization header contains no bearer token")
        token = authorization[len(_BEARER) :].strip()
        digest = hashlib.sha256(token.encode("utf-8", errors="replace")).hexdigest()
        known = self._tokens.get(digest)
        if known is None:
            user = await review_token(self.client, Sensitive(token)) if token else None
            self._tokens.put(digest, user, KNOWN_TOKEN_SECONDS if user else REFUSED_TOKEN_SECONDS)
        else:
            user = known.value
        if user is None:
            raise RequestRefused(401, "the hub's API server refuses the bearer token: it may have expired")
        return user

    def _verify(self, der: bytes) -> Caller:
        try:
            leaf = parse_certificate(der)
            verify_chain(leaf, self.roots(), now=self.clock.now())
        except PkiError as cause:
            raise RequestRefused(401, f"the client certificate is refused: {cause}") from cause
        cluster = cluster_of_certificate(leaf)
        if not cluster:
            raise RequestRefused(401, "the client certificate does not name an agent of a cluster")
        groups = (*leaf.organisations, _AUTHENTICATED)
        return Caller(UserIdentity(leaf.common_name, groups=groups), cluster, leaf.not_after)


def cluster_of_certificate(leaf: Certificate) -> str:
    """Return the cluster whose agent a certificate names; empty unless the rebuilt names are equal to its own."""
    _, _, rest = leaf.common_name.partition(agent_user("", "").removesuffix(":"))
    cluster, _, agent = rest.partition(":")
    own = {cluster_group(cluster)}
    same_user = bool(cluster and agent) and leaf.common_name == agent_user(cluster, agent)
    same_groups = set(leaf.organisations) in (own, own | {MANAGED_CLUSTERS_GROUP})
    return cluster if same_user and same_groups and ":" not in agent else ""


def review_interval(caller: Caller) -> timedelta:
    """Return how often the rights of an open stream are reviewed: a token may be deleted at any time."""
    return timedelta(minutes=10) if caller.cluster else timedelta(minutes=1)
