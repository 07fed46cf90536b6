"""What a caller may do: its certificate's cluster, the hub's acceptance, and a SubjectAccessReview."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS, SERVICE_ACCOUNTS
from watchword.kube.access_reviews import ResourceAccess, may
from watchword.kube.client import Client
from watchword.registration.grpc.errors import UnknownEventType
from watchword.registration.grpc.event_types import RESOURCES, Action, DataType, EventType, SubResource
from watchword.registration.grpc.server.authentication import Caller
from watchword.registration.grpc.server.expiring_map import ExpiringMap
from watchword.registration.grpc.server.refusals import RequestRefused
from watchword.runtime.reconcile import Reader

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
        known = self._answers.get(question)
        if known is None:
            allowed = await may(self.client, user, access)
            self._answers.put(question, allowed, ALLOWED_SECONDS if allowed else DENIED_SECONDS)
            if caller.cluster:  # it may have been denied during the review
                self._require_own_cluster(caller, cluster)
        else:
            allowed = known.value
        if not allowed:
            raise RequestRefused(403, _denial(caller, access))

    def forget(self, cluster: str) -> None:
        """Forget every answer about a cluster."""
        self._answers.forget(lambda question: question.cluster == cluster)

    def _require_own_cluster(self, caller: Caller, cluster: str) -> None:
        if caller.cluster != cluster:
            raise RequestRefused(
                403,
                f"the certificate of cluster {caller.cluster} does not act for another cluster: correct clustername",
            )
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
        if found is None or not is_accepted(Cluster.read(found)):
            raise RequestRefused(403, f"cluster {cluster} is not accepted by this hub: `watchword accept {cluster}`")


def is_accepted(cluster: Cluster) -> bool:
    """Whether the certificate of a cluster is worth anything; one that is being deleted still reports its end."""
    return cluster.accepted


def _denial(caller: Caller, access: ResourceAccess) -> str:
    what = access.resource.group_resource + (f"/{access.subresource}" if access.subresource else "")
    place = f" in namespace {access.key.namespace!r}" if access.key.namespace else ""
    return f"user {caller.user.username!r} cannot {access.verb} {what}{place}"
