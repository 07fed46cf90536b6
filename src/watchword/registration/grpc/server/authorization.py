"""Who calls the server, and what a caller may do."""

import asyncio
import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.expiring_map import ExpiringMap
from watchword.api.meta import ObjectKey, annotations_of
from watchword.api.names import MANAGED_CLUSTERS_GROUP, Annotation, agent_user, cluster_group
from watchword.api.resources import MANAGED_CLUSTERS, SERVICE_ACCOUNTS
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, review_token
from watchword.kube.client import Client
from watchword.pki.certificates import Certificate, parse_certificate, verify_chain
from watchword.pki.errors import PkiError
from watchword.registration.grpc.cloud_events import RESOURCES, Action, DataType, EventType, SubResource
from watchword.registration.grpc.errors import RequestRefused, UnknownEventType
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader

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
    """Authenticates callers, by token before certificate as OCM does; raises `RequestRefused` with code 401."""

    client: Client
    clock: Clock
    roots: Callable[[], tuple[Certificate, ...]]  # the authorities of this moment
    _tokens: ExpiringMap[str, tuple[UserIdentity | None]] = field(default_factory=lambda: ExpiringMap(4096))

    async def authenticate(self, presented: CallerCredential) -> Caller:
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
        loop = asyncio.get_running_loop()
        known = self._tokens.get(digest, now=loop.time())
        if known is None:
            known = (await review_token(self.client, Sensitive(token)) if token else None,)
            seconds = KNOWN_TOKEN_SECONDS if known[0] else REFUSED_TOKEN_SECONDS
            self._tokens.put(digest, known, now=loop.time(), seconds=seconds)
        user = known[0]
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


ALLOWED_SECONDS = 120.0
DENIED_SECONDS = 1.0
ANY_OBJECT = ObjectKey("", "")

_VERBS = {
    Action.CREATE: "create",
    Action.UPDATE: "update",
    Action.RESYNC_REQUEST: "watch",  # its answer goes to a subscription, which needs the same right
    Action.WATCH: "watch",
}


def choose_access(kind: EventType, cluster: str, name: str = "") -> ResourceAccess:
    """Return what the hub's API server would require for the same request; `UnknownEventType` where it has none."""
    verb = _VERBS.get(kind.action)
    if verb is None:
        raise UnknownEventType(f"agents send no {kind.action}: send an event that the protocol defines")
    if kind.data_type is DataType.TOKEN_REQUEST:
        wanted = {"create": "create", "watch": "subscribe"}.get(verb)
        if wanted is None:
            raise UnknownEventType(f"a token request is created or subscribed to: there is no {kind.action}")
        return ResourceAccess(wanted, SERVICE_ACCOUNTS, ObjectKey(cluster, name), "token")
    resource = RESOURCES[kind.data_type]
    subresource = "status" if kind.subresource is SubResource.STATUS else ""
    if kind.data_type is DataType.MANAGED_CLUSTER:
        key = ObjectKey.cluster("" if verb == "create" else cluster)  # a right to create cannot name objects
    else:
        key = ObjectKey(cluster if resource.namespaced else "", name)
    return ResourceAccess(verb, resource, key, subresource)


class _Question(NamedTuple):
    cluster: str  # whose denial drops the answer; empty for a right that is not about one cluster
    user: str
    uid: str
    groups: tuple[str, ...]
    access: ResourceAccess


class Authorizer(Struct):
    """Asks the API server what a caller may do, and remembers the answer briefly."""

    client: Client
    reader: Reader
    _answers: ExpiringMap[_Question, bool] = field(default_factory=lambda: ExpiringMap(65_536))

    async def authorize(self, caller: Caller, cluster: str, access: ResourceAccess) -> None:
        """Raise `RequestRefused` with code 403 unless the caller may do this for that cluster."""
        if caller.cluster:
            self._require_own_cluster(caller, cluster)
        user = caller.user
        concerned = cluster if caller.cluster or access.key != ANY_OBJECT else ""
        question = _Question(concerned, user.username, user.uid, user.groups, access)
        loop = asyncio.get_running_loop()
        allowed = self._answers.get(question, now=loop.time())
        if allowed is None:
            allowed = await may(self.client, user, access)
            seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
            self._answers.put(question, allowed, now=loop.time(), seconds=seconds)
            if caller.cluster:  # it may have been denied during the review
                self._require_own_cluster(caller, cluster)
        if not allowed:
            raise RequestRefused(403, _denial(caller, access))

    def forget(self, cluster: str) -> None:
        self._answers.forget(lambda question: question.cluster == cluster)

    def _require_own_cluster(self, caller: Caller, cluster: str) -> None:
        if caller.cluster != cluster:
            raise RequestRefused(
                403,
                f"the certificate of cluster {caller.cluster} does not act for another cluster: correct clustername",
            )
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
        if found is None or not Cluster.read(found).accepted:  # one that is being deleted still reports its end
            raise RequestRefused(
                403, f"cluster {cluster} is not accepted by this hub: run `watchword accept {cluster}` there"
            )
        owner, is_noted = read_name_owner(found), Annotation.FIRST_KEY in annotations_of(found)
        if is_noted and (owner is None or caller.user.username != agent_user(cluster, owner.agent)):
            raise RequestRefused(
                403,
                f"the certificate is not that of the agent whose key the hub accepted for cluster {cluster}: "
                f"run `watchword rejoin --take-over --cluster-name {cluster}` there if another agent has the name now",
            )


def _denial(caller: Caller, access: ResourceAccess) -> str:
    what = access.resource.group_resource + (f"/{access.subresource}" if access.subresource else "")
    place = f" in namespace {access.key.namespace!r}" if access.key.namespace else ""
    return f"user {caller.user.username!r} cannot {access.verb} {what}{place}"
