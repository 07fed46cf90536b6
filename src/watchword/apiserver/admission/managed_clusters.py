"""Checks the permissions to accept clusters, to join cluster sets and to bind them, which RBAC alone cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from watchword.api.meta import Object, annotations_of, finalizers_of, labels_of
from watchword.api.names import HUB_ANNOTATIONS, HUB_FINALIZERS, RESERVED_CLUSTER_NAMES
from watchword.apiserver import errors
from watchword.apiserver.authz.model import Authorizer
from watchword.apiserver.model import Operation, RequestInfo

CLUSTER_GROUP = "cluster.open-cluster-management.io"
REGISTER_GROUP = "register.open-cluster-management.io"
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
DEFAULT_SET = "default"


class RequiredPermission(Struct, frozen=True):
    """The right that a user needs for one aspect of a write, and the message of a refusal."""

    verb: str
    group: str
    resource: str
    subresource: str
    name: str
    refusal: str


PermissionRule = Callable[[Object, Object | None], Iterable[RequiredPermission]]
"""Returns the rights that a write of (new, old) needs beyond RBAC on the object itself."""


def permissions_to_accept(new: Object, old: Object | None) -> Iterable[RequiredPermission]:
    """Letting a cluster in is a right of its own; turning it away is not."""
    if _accepted(new) and not (old is not None and _accepted(old)):
        name = new["metadata"]["name"]
        yield RequiredPermission(
            "update", REGISTER_GROUP, "managedclusters", "accept", name, "cannot update the HubAcceptsClient field"
        )


def permissions_to_annotate(new: Object, old: Object | None) -> Iterable[RequiredPermission]:
    """Only users who may accept clusters may change the hub's annotations and finalizers on a ManagedCluster."""
    before = {} if old is None else annotations_of(old)
    notes = any(annotations_of(new).get(name) != before.get(name) for name in HUB_ANNOTATIONS)
    lifts = old is not None and set(HUB_FINALIZERS) & set(finalizers_of(old)) - set(finalizers_of(new))
    if notes or lifts:
        name = new["metadata"]["name"]
        yield RequiredPermission(
            "update", REGISTER_GROUP, "managedclusters", "accept", name, "cannot change what the hub has noted"
        )


def permissions_to_join_set(new: Object, old: Object | None) -> Iterable[RequiredPermission]:
    """Moving a cluster between sets needs the right to join both; new clusters start in the default set."""
    after = labels_of(new).get(SET_LABEL, "")
    before = DEFAULT_SET if old is None else labels_of(old).get(SET_LABEL, "")
    if after == before:
        return
    for name in (before, after):
        if name and (old is not None or name != DEFAULT_SET):
            yield RequiredPermission(
                "create",
                CLUSTER_GROUP,
                "managedclustersets",
                "join",
                name,
                f"cannot add/remove a ManagedCluster to/from ManagedClusterSet {errors.quote(name)}",
            )


def permissions_to_bind_set(new: Object, old: Object | None) -> Iterable[RequiredPermission]:
    """Using a set in a namespace needs the right to bind it."""
    name = (new.get("spec") or {}).get("clusterSet") or ""
    if old is None or name != ((old.get("spec") or {}).get("clusterSet") or ""):
        yield RequiredPermission(
            "create",
            CLUSTER_GROUP,
            "managedclustersets",
            "bind",
            name,
            f"is not allowed to bind cluster set {errors.quote(name)}",
        )


PERMISSION_RULES: dict[str, tuple[PermissionRule, ...]] = {
    "managedclusters": (permissions_to_accept, permissions_to_annotate, permissions_to_join_set),
    "managedclustersetbindings": (permissions_to_bind_set,),
}


async def default_cluster_set(operation: Operation) -> None:
    """Put a new ManagedCluster into the default set unless it names one: a mutating step."""
    if operation.verb != "create" or not _is(operation, "managedclusters") or operation.new is None:
        return
    metadata = operation.new["metadata"]
    labels = metadata["labels"] = metadata.get("labels") or {}
    if not labels.get(SET_LABEL):
        labels[SET_LABEL] = DEFAULT_SET


class ManagedClusterAdmission(Struct, frozen=True):
    """A validating admission step for the fleet's kinds; other operations pass."""

    authorizer: Authorizer

    async def __call__(self, operation: Operation) -> None:
        """Raise 403 when the user lacks a right that this write needs."""
        resource = operation.kind.resource
        demands = PERMISSION_RULES.get(resource.plural) if resource.group == CLUSTER_GROUP else None
        if not demands or operation.new is None or operation.subresource:
            return
        if operation.old is None and resource.plural == "managedclusters":
            _refuse_reserved_name(operation)
        for demand in demands:
            for right in demand(operation.new, operation.old):
                self._require(operation, right)

    def _require(self, operation: Operation, right: RequiredPermission) -> None:
        info = RequestInfo(
            verb=right.verb,
            path="",
            is_resource=True,
            group=right.group,
            version="*",
            resource=right.resource,
            subresource=right.subresource,
            name=right.name,
        )
        if not self.authorizer.decide(operation.user, info).allowed:
            message = f"user {errors.quote(operation.user.name)} {right.refusal}"
            raise errors.forbidden(operation.kind.resource, operation.key.name, message)


def _refuse_reserved_name(operation: Operation) -> None:
    if operation.key.name in RESERVED_CLUSTER_NAMES:
        message = "this cluster name is reserved: it names a namespace, group or role of the hub"
        raise errors.forbidden(operation.kind.resource, operation.key.name, message)


def _accepted(cluster: Object) -> bool:
    return (cluster.get("spec") or {}).get("hubAcceptsClient") is True


def _is(operation: Operation, plural: str) -> bool:
    resource = operation.kind.resource
    return (resource.group, resource.plural, operation.subresource) == (CLUSTER_GROUP, plural, "")
