"""Denies clusters and requests for the hub's administrator."""

from __future__ import annotations

from watchword.admin.errors import OperationRefused
from watchword.admin.hub_admin import HUB_RUNNING_HINT, AdmissionResult, HubAdmin
from watchword.admin.wait import ObjectWaiter
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.certificates.approval import is_pending


async def deny(hub_admin: HubAdmin, name: str) -> AdmissionResult:
    """Take a cluster's rights away, and deny what is pending under its name."""
    cluster = await hub_admin.cluster(name)
    changed = await hub_admin.deny(cluster)
    pending = [csr for csr in await hub_admin.csrs_of(name) if is_pending(csr)]
    for csr in pending:
        await hub_admin.record_decision(csr, "Denied", "the hub's administrator denied this cluster")
    return AdmissionResult(name, tuple(csr["metadata"]["name"] for csr in pending), changed=changed)


async def deny_request(hub_admin: HubAdmin, name: str) -> AdmissionResult:
    """Deny one request, whatever it contains; `OperationRefused` when it is approved already."""
    csr = await hub_admin.client.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))
    if csr is None:
        raise OperationRefused(f"there is no request {name}: `watchword clusters show` lists those of a cluster")
    if find_condition(csr, "Denied") is not None:
        return AdmissionResult()
    if not is_pending(csr):
        raise OperationRefused(
            f"request {name} is approved already: take the cluster's rights away with `watchword deny`"
        )
    await hub_admin.record_decision(csr, "Denied", "the hub's administrator denied this request")
    return AdmissionResult(requests=(name,))


async def await_denied(waiter: ObjectWaiter, name: str) -> None:
    """Wait until the hub has taken the rights away."""
    await waiter.until(MANAGED_CLUSTERS, ObjectKey.cluster(name), validate_denied, advice=HUB_RUNNING_HINT)


def validate_denied(found: Object | None) -> str:
    """Return what a denied cluster still has; empty when it has no rights any more."""
    said = find_condition(found or {}, ConditionType.HUB_ACCEPTED)
    return "the hub has not taken the cluster's rights away yet" if said is not None and said.status == "True" else ""
