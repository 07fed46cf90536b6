"""Turns clusters and requests away, as the hub's administrator says."""

from __future__ import annotations

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.drivers.csr.hub import is_pending
from watchword.fleet.errors import Refused
from watchword.fleet.hub_desk import IS_IT_RUNNING, Decision, HubDesk
from watchword.fleet.watching import Watcher


async def deny(desk: HubDesk, name: str) -> Decision:
    """Take a cluster's rights away, and deny what is pending under its name."""
    cluster = await desk.cluster(name)
    changed = await desk.set_accepted(cluster, accepted=False)
    pending = [csr for csr in await desk.requests_of(name) if is_pending(csr)]
    for csr in pending:
        await desk.decide(csr, "Denied", "the hub's administrator denied this cluster")
    return Decision(name, tuple(csr["metadata"]["name"] for csr in pending), changed=changed)


async def deny_request(desk: HubDesk, name: str) -> Decision:
    """Deny one request, whatever it says of itself; `Refused` when it is approved already."""
    csr = await desk.client.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))
    if csr is None:
        raise Refused(f"there is no request {name}: `watchword clusters show` lists those of a cluster")
    if find_condition(csr, "Denied") is not None:
        return Decision()
    if not is_pending(csr):
        raise Refused(f"request {name} is approved already: take the cluster's rights away with `watchword deny`")
    await desk.decide(csr, "Denied", "the hub's administrator denied this request")
    return Decision(requests=(name,))


async def await_denied(watcher: Watcher, name: str) -> None:
    """Wait until the hub has taken the rights away."""
    await watcher.until(MANAGED_CLUSTERS, ObjectKey.cluster(name), judge_withdrawn, advice=IS_IT_RUNNING)


def judge_withdrawn(found: Object | None) -> str:
    """Say what a denied cluster still has; empty when it has no rights any more."""
    said = find_condition(found or {}, ConditionType.HUB_ACCEPTED)
    return "the hub has not taken the cluster's rights away yet" if said is not None and said.status == "True" else ""
