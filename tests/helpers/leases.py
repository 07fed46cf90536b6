"""Builds Leases as agents renew them."""

from __future__ import annotations

from datetime import datetime

from watchword.api import resources
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import CLUSTER_LEASE
from watchword.api.time import rfc3339_micro


def a_lease(
    name: str = CLUSTER_LEASE,
    *,
    namespace: str,
    renewed_at: datetime | None = None,
    holder: str = "",
    seconds: int = 60,
) -> Object:
    spec: Object = {"leaseDurationSeconds": seconds}
    if holder:
        spec["holderIdentity"] = holder
    if renewed_at is not None:
        spec["renewTime"] = rfc3339_micro(renewed_at)
    return resources.LEASES.manifest(ObjectKey(namespace, name), spec=spec)
