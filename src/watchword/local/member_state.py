"""How far a cluster of a fleet on this machine is, from what its hub knows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.time import rfc3339_micro
from watchword.drivers.catalog import CATALOG


def is_ready_for_decision(cluster: Object | None, requests: Sequence[Object], *, by_request: bool = True) -> bool:
    """Whether a cluster can be decided about: it was before, or its request is there, where its driver makes one.

    A request that is approved already counts: a crash may come between the approval and the acceptance.
    """
    if cluster is None:
        return False
    name = cluster["metadata"]["name"]
    asked = any(labels_of(csr).get(Label.CLUSTER_NAME) == name for csr in requests)
    return asked or not by_request or is_decided(cluster)


def is_decided(cluster: Object) -> bool:
    """Whether the administrator accepted or denied a cluster already: a denial stands."""
    accepted = (cluster.get("spec") or {}).get("hubAcceptsClient") is True
    return accepted or find_condition(cluster, ConditionType.HUB_ACCEPTED) is not None


def is_settled(cluster: Object | None, lease: Object | None, since: datetime) -> bool:
    """Whether a cluster has reached its final state: it works and reports, its lease is renewed, or it was denied.

    Conditions survive a restart; a lease that was renewed since proves that the agent runs.
    """
    if cluster is None:
        return False
    if (cluster.get("spec") or {}).get("hubAcceptsClient") is not True:
        return is_decided(cluster)
    credential = CATALOG.cluster_credential(cluster)
    has_credential = credential is not None and credential.status == "True"
    works = is_true(cluster, ConditionType.JOINED) and is_true(cluster, ConditionType.AVAILABLE)
    return works and has_credential and is_renewed_since(lease, since)


def is_renewed_since(lease: Object | None, since: datetime) -> bool:
    """Whether the holder of a lease has renewed it since then."""
    renewed = ((lease or {}).get("spec") or {}).get("renewTime") or ""
    return str(renewed) >= rfc3339_micro(since)
