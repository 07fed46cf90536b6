"""Decides the health of clusters, add-ons and credentials."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import IntEnum

from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object, annotations_of, labels_of
from watchword.api.names import DENIED_REASON, Annotation, ConditionType, Label, cluster_group
from watchword.credentials.certificates.requests import is_pending, requester_of

TOLERANCE = 0.05  # of a validity: for retries
AUTHORITY_WARNING_PERIOD = timedelta(days=90)  # before a certificate authority expires, whose replacement takes time


class InventoryHealth(IntEnum):
    """In order of what needs attention first."""

    EXPIRED = 0
    FAILING = 1
    OVERDUE = 2
    PENDING = 3
    UNKNOWN = 4
    DUE = 5
    DENIED = 6  # by the administrator
    LEFT = 7  # by unjoin
    GOOD = 8

    @property
    def label(self) -> str:
        return self.name.capitalize()

    @property
    def needs_attention(self) -> bool:
        return self < InventoryHealth.DUE

    @property
    def is_not_good(self) -> bool:
        return self is not InventoryHealth.GOOD


def decide_renewed_health(validity: CredentialValidity, *, now: datetime) -> InventoryHealth:
    if validity.expires is None:
        return InventoryHealth.UNKNOWN
    if now >= validity.expires:
        return InventoryHealth.EXPIRED
    renewal = validity.latest_renewal
    if renewal is None or now < renewal:
        return InventoryHealth.GOOD
    whole = validity.expires - (validity.issued or renewal)
    return InventoryHealth.OVERDUE if now >= renewal + whole * TOLERANCE else InventoryHealth.DUE


def decide_authority_health(validity: CredentialValidity, *, now: datetime) -> InventoryHealth:
    """Decide the health of a certificate authority, which is never renewed automatically."""
    if validity.expires is None:
        return InventoryHealth.UNKNOWN
    if now >= validity.expires:
        return InventoryHealth.EXPIRED
    return InventoryHealth.PENDING if now >= validity.expires - AUTHORITY_WARNING_PERIOD else InventoryHealth.GOOD


def decide_expiring_health(validity: CredentialValidity, *, now: datetime) -> InventoryHealth:
    return InventoryHealth.EXPIRED if validity.expires is not None and now >= validity.expires else InventoryHealth.GOOD


def decide_cluster_health(
    cluster: Cluster, requests: Sequence[Object], report: Condition | None = None
) -> tuple[InventoryHealth, str]:
    """Return how well a cluster is, with the next step; `report` is what the hub says of the identity it makes."""
    problem = report.message if report is not None and report.status == "False" else ""
    if cluster.deleting:
        return InventoryHealth.PENDING, f"being removed: {problem}" if problem else "being removed"
    if not problem:
        return _health_without_problem(cluster, requests)
    if cluster.accepted and is_true(cluster.object, ConditionType.HUB_ACCEPTED):
        return InventoryHealth.FAILING, problem
    state = "accepted" if cluster.accepted else "denied" if is_denied(cluster.object) else "not accepted"
    return InventoryHealth.PENDING, f"{state}: {problem}"


def _health_without_problem(cluster: Cluster, requests: Sequence[Object]) -> tuple[InventoryHealth, str]:
    granted = find_condition(cluster.object, ConditionType.HUB_ACCEPTED)
    if not cluster.accepted:
        return _unaccepted_cluster_health(cluster, requests)
    if granted is None or granted.status != "True":
        return (
            InventoryHealth.PENDING,
            granted.message if granted is not None else "accepted; the hub has not granted its rights yet",
        )
    if not is_true(cluster.object, ConditionType.JOINED):
        return InventoryHealth.PENDING, "accepted; its agent has not connected yet"
    asked = is_requested_by_another_key(cluster.name, requests)
    take_over = f"another key asks for its name: watchword rejoin --take-over --cluster-name {cluster.name}"
    available = find_condition(cluster.object, ConditionType.AVAILABLE)
    if available is None or available.status != "True":
        reported = available.message if available is not None else "its agent has not reported"
        return InventoryHealth.FAILING, f"{reported}; {take_over}" if asked else reported
    clock = find_condition(cluster.object, ConditionType.CLOCK_SYNCED)
    if clock is not None and clock.status == "False":
        return InventoryHealth.FAILING, clock.message
    return (InventoryHealth.PENDING, take_over) if asked else (InventoryHealth.GOOD, "")


def _unaccepted_cluster_health(cluster: Cluster, requests: Sequence[Object]) -> tuple[InventoryHealth, str]:
    asked = is_requested_by_another_key(cluster.name, requests)
    if is_true(cluster.object, ConditionType.CLEANUP_SCHEDULED):
        return InventoryHealth.LEFT, "left by unjoin; will be deleted"
    if is_denied(cluster.object):
        denied = "denied by the administrator"
        return InventoryHealth.DENIED, f"{denied}; a request for its name is undecided" if asked else denied
    waits = "has asked to join" if asked else "has registered"
    return InventoryHealth.PENDING, f"{waits}: watchword accept {cluster.name}"


def is_accepted(cluster: Object) -> bool:
    """Whether the spec of a ManagedCluster accepts it; nothing else of the object is read."""
    return (cluster.get("spec") or {}).get("hubAcceptsClient") is True


def is_denied(cluster: Object) -> bool:
    """Whether an administrator denied the cluster, accepted before or not, and has not accepted it since."""
    granted = find_condition(cluster, ConditionType.HUB_ACCEPTED)
    said = granted is not None and granted.reason == DENIED_REASON
    return not is_accepted(cluster) and (said or Annotation.DENIED_ON in annotations_of(cluster))


def is_requested_by_another_key(cluster: str, requests: Sequence[Object]) -> bool:
    own = f"{cluster_group(cluster)}:"
    return any(
        is_pending(csr) and Label.ADDON_NAME not in labels_of(csr) and not requester_of(csr).user.startswith(own)
        for csr in requests
    )
