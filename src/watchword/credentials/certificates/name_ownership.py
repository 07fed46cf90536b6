"""Which key a cluster's name belongs to: on record with the cluster itself, so that no restart forgets it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from watchword.api import names
from watchword.api.bootstrap import BOOTSTRAPPERS_GROUP, USER_PREFIX
from watchword.api.conditions import is_true
from watchword.api.meta import Object, annotations_of, finalizers_of, labels_of
from watchword.api.names import HUB_FINALIZERS, Annotation, ConditionType, Label
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.certificates.requests import (
    APPROVED,
    APPROVED_REASON,
    CertificateRequestRefused,
    ClusterRequest,
    is_pending,
    read_cluster_request,
    read_decision,
    requester_of,
)
from watchword.pki.csr import parse_csr
from watchword.pki.errors import PkiError


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
        is_noted = noted is not None and noted.is_of(request)
        if at is not None and created is not None and at >= created and not is_noted:
            owners.append(NameOwner.of(request, at))
    return max(owners, key=lambda owner: owner.since, default=None)  # of one second, the first named


def _last_written(csr: Object) -> int:
    version = str(csr["metadata"].get("resourceVersion") or "")
    return int(version) if version.isascii() and version.isdigit() else 0


def first_requests(csrs: Iterable[Object]) -> Iterable[tuple[Object, ClusterRequest]]:
    of_clusters = (csr for csr in csrs if Label.ADDON_NAME not in labels_of(csr))
    return (row for row in well_formed_requests(of_clusters) if not row[1].is_renewal)


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


BOOTSTRAP_ACCOUNT = names.service_account_user(names.BOOTSTRAP_NAMESPACE, names.BOOTSTRAP_SERVICE_ACCOUNT)


class ApprovalTerms(Struct, frozen=True):
    """Under which terms the administrator approves; label, subject and key are compared under all of them."""

    requesters: frozenset[str] = frozenset()  # besides the bootstrap identities
    anyone: bool = False  # any requester
    chosen: str = ""  # the name of the one request that is meant, where several are pending
    take_over: bool = False  # the name may pass to another key

    def allows(self, request: ClusterRequest) -> bool:
        by_token = request.requester.startswith(USER_PREFIX) and BOOTSTRAPPERS_GROUP in request.requester_groups
        return self.anyone or by_token or request.requester in (BOOTSTRAP_ACCOUNT, *self.requesters)


class ApproveRequests(Struct, frozen=True):
    """These requests, all of one key, are what a cluster of that name would send."""

    requests: tuple[Object, ...]
    request: ClusterRequest
    left_pending: tuple[str, ...] = ()  # what is wrong with each other request of that label


class NothingToApprove(Struct, frozen=True):
    """The cluster has its certificate, or the approval for it."""


class NoRequest(Struct, frozen=True):
    """There is no request for a certificate under this name."""


class RefuseApproval(Struct, frozen=True):
    """A request is not acceptable; the message contains the reason and the next step."""

    why: str


ApprovalDecision: TypeAlias = ApproveRequests | NothingToApprove | NoRequest | RefuseApproval


def decide_approval(cluster: Object, csrs: Sequence[Object], terms: ApprovalTerms) -> ApprovalDecision:
    """Decide about the requests that carry the cluster's label.

    Any identity that may create requests can set the label. So a request that contradicts itself, or that comes from an
    unknown requester, stays pending and is reported; it blocks acceptance only when there is no other.
    """
    name = cluster["metadata"]["name"]
    own = [csr for csr in csrs if names.Label.ADDON_NAME not in labels_of(csr)]
    pending = [csr for csr in own if is_pending(csr) and terms.chosen in ("", _name(csr))]
    if terms.chosen and not pending:
        return RefuseApproval(
            f"no request {terms.chosen} is pending for cluster {name}: `watchword clusters show {name}` lists all"
        )
    read: list[tuple[Object, ClusterRequest]] = []
    objections: list[str] = []
    for csr in pending:
        try:
            request = read_cluster_request(csr)
        except CertificateRequestRefused as objection:
            objections.append(_contradiction(csr, name, objection))
            continue
        if request.is_renewal:
            continue  # the hub itself decides about renewals
        if terms.allows(request):
            read.append((csr, request))
        else:
            objections.append(_unknown_requester(csr, request))
    if read:
        decision = _decide_keys(cluster, own, read, terms)
        left_pending = tuple(objections)
        return replace(decision, left_pending=left_pending) if isinstance(decision, ApproveRequests) else decision
    has_one = is_true(cluster, names.ConditionType.JOINED) or choose_name_owner(cluster, own) is not None
    if objections and (terms.chosen or not has_one):
        return RefuseApproval(objections[0])
    return NothingToApprove() if has_one else NoRequest()


def _decide_keys(
    cluster: Object, own: Sequence[Object], read: Sequence[tuple[Object, ClusterRequest]], terms: ApprovalTerms
) -> ApproveRequests | RefuseApproval:
    request = read[0][1]
    if len({asked.key_thumbprint for _, asked in read}) > 1:
        rows = ", ".join(f"{_name(csr)} (key {asked.key_thumbprint[:16]})" for csr, asked in read)
        return RefuseApproval(
            f"more than one key asks for the name {request.cluster}: {rows}; choose one with --request NAME and turn "
            "the others away with `watchword deny --request NAME`"
        )
    objection = None if terms.take_over else validate_name_ownership(cluster, request, choose_name_owner(cluster, own))
    if objection:
        return RefuseApproval(f"{objection}; this request is of the key {request.key_thumbprint[:16]}")
    return ApproveRequests(tuple(csr for csr, _ in read), request)


def well_formed_requests(csrs: Iterable[Object]) -> Iterable[tuple[Object, ClusterRequest]]:
    for csr in csrs:
        try:
            yield csr, read_cluster_request(csr)
        except CertificateRequestRefused:
            continue


def claimed_subject(csr: Object) -> str:
    try:
        return parse_csr(base64.b64decode((csr.get("spec") or {}).get("request") or "", validate=True)).common_name
    except (PkiError, binascii.Error, ValueError):
        return ""


def _contradiction(csr: Object, cluster: str, objection: CertificateRequestRefused) -> str:
    requester = requester_of(csr).user or "unknown"
    return (
        f"request {_name(csr)} carries the label of cluster {cluster!r} but asks for the subject "
        f"{claimed_subject(csr)!r}: {objection}; find out who made it ({requester}), and turn it away with "
        f"`watchword deny --request {_name(csr)}`"
    )


def _unknown_requester(csr: Object, request: ClusterRequest) -> str:
    return (
        f"request {_name(csr)} for cluster {request.cluster} was made by {request.requester!r}, who is not a bootstrap "
        f"identity: if that is right, run again with --requesters {request.requester}"
    )


def _name(csr: Object) -> str:
    return str(csr["metadata"]["name"])
