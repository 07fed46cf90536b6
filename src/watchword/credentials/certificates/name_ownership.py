"""Which key a cluster's name belongs to: on record with the cluster itself, so that no restart forgets it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from watchword.api.conditions import is_true
from watchword.api.meta import Object, annotations_of, finalizers_of, labels_of
from watchword.api.names import HUB_FINALIZERS, Annotation, ConditionType, Label
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.certificates.approval import APPROVED, APPROVED_REASON, read_decision
from watchword.credentials.certificates.request import CertificateRequestRefused
from watchword.credentials.certificates.request_validation import ClusterRequest, read_cluster_request


class NameOwner(Struct, frozen=True):
    """One agent with one key that was given a name at some instant."""

    agent: str
    key: str  # its thumbprint
    since: datetime

    @classmethod
    def of(cls, request: ClusterRequest, since: datetime) -> NameOwner:
        return cls(request.agent, request.key_thumbprint, since)

    @property
    def text(self) -> str:
        return f"{self.agent} {self.key} {rfc3339(self.since)}"

    def is_of(self, request: ClusterRequest) -> bool:
        return (self.agent, self.key) == (request.agent, request.key_thumbprint)


def read_name_owner(cluster: Object) -> NameOwner | None:
    """Return the owner that the hub has noted; an agent can neither write nor erase it."""
    parts = annotations_of(cluster).get(Annotation.FIRST_KEY, "").split(" ")
    if len(parts) != 3:
        return None
    since = parse_rfc3339(parts[2])
    return None if since is None else NameOwner(parts[0], parts[1], since)


def choose_name_owner(cluster: Object, csrs: Iterable[Object]) -> NameOwner | None:
    """Return the owner of the name: the last one it was given to, as recorded or as the requests show.

    The hub records what it approves, so requests show only what others approved; those that were approved before this
    ManagedCluster existed belonged to an earlier one of the same name.
    """
    noted = read_name_owner(cluster)
    owners = [noted] if noted is not None else []
    created = parse_rfc3339(cluster["metadata"].get("creationTimestamp") or "")
    for csr, request in first_requests(sorted(csrs, key=_last_written, reverse=True)):
        at = approved_by_others_at(csr)
        if (
            at is not None
            and created is not None
            and at >= created
            and not (noted is not None and noted.is_of(request))
        ):
            owners.append(NameOwner.of(request, at))
    return max(owners, key=lambda owner: owner.since, default=None)  # of one second, the first named


def _last_written(csr: Object) -> int:
    version = str(csr["metadata"].get("resourceVersion") or "")
    return int(version) if version.isascii() and version.isdigit() else 0


def first_requests(csrs: Iterable[Object]) -> Iterable[tuple[Object, ClusterRequest]]:
    for csr in csrs:
        if Label.ADDON_NAME in labels_of(csr):
            continue
        try:
            request = read_cluster_request(csr)
        except CertificateRequestRefused:
            continue
        if not request.is_renewal:
            yield csr, request


def approved_by_others_at(csr: Object) -> datetime | None:
    """Return when another approver than the hub approved a request, by the API server's clock; else None."""
    decision = read_decision(csr)
    return decision.decided_at if decision.verdict == APPROVED and decision.reason != APPROVED_REASON else None


def validate_name_ownership(cluster: Object, request: ClusterRequest, owner: NameOwner | None) -> str | None:
    """Return why the name belongs to another cluster already, or None when it is free for this key."""
    if is_true(cluster, ConditionType.JOINED):
        return (
            f"cluster name {request.cluster} is owned by a cluster that has joined: "
            "choose another name, or let the hub's administrator run rejoin --take-over"
        )
    if owner is not None and owner.key != request.key_thumbprint:
        return (
            f"cluster name {request.cluster} was claimed first by the key {owner.key[:16]}: if that key is lost, "
            "let the hub's administrator run rejoin --take-over, or delete a cluster that was never accepted"
        )
    return None


def name_owner_patch(cluster: Object, owner: NameOwner, acceptance: Object | None = None) -> Object:
    """Return what to merge into a ManagedCluster so that the owner is on record, and is not lost with its end.

    With an `acceptance`, which is such a patch itself, the same write accepts the cluster.
    """
    patch = acceptance or {}
    metadata: Object = dict(patch.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), Annotation.FIRST_KEY: owner.text}
    missing = [name for name in HUB_FINALIZERS if name not in finalizers_of(cluster)]
    if missing:
        metadata["finalizers"] = [*finalizers_of(cluster), *missing]
    return {**patch, "metadata": metadata}
