"""How a fleet comes up on this machine: the same steps that people take on real clusters, as data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from watchword.api.bootstrap import CLUSTER_INFO
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.resources import CONFIG_MAPS, LEASES, MANAGED_CLUSTERS
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339_micro
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.dialing import HttpsDialer
from watchword.discovery.discover import Discovery
from watchword.discovery.token_store import TokenStore
from watchword.discovery.waiting import Patience
from watchword.fleet.accepting import Doorkeeper
from watchword.fleet.bootstrap_access import HubAddress, find_hub
from watchword.fleet.hub_desk import HubDesk
from watchword.fleet.hub_process import LEASE as HUB_LEASE
from watchword.fleet.hub_readiness import SignatureLook
from watchword.fleet.hub_setup import HubSetup, set_up_hub
from watchword.fleet.initial_token import TokenWish, ensure_token
from watchword.fleet.joining import Membership, join
from watchword.fleet.local.member import Member
from watchword.fleet.local.sample import is_served, start_sample
from watchword.fleet.local.site import Site, each
from watchword.fleet.observing import EVENT_SOURCE, LEASE_SOURCE, observing
from watchword.hub.first_request import Terms
from watchword.runtime.informer import Scope

Tell: TypeAlias = Callable[[str], None]
"""Says more about the step that is under way."""

A_DAY = 24 * 3600
HUB_LEASE_SOURCE = (LEASES, Scope(HUB_LEASE.namespace, fields=f"metadata.name={HUB_LEASE.name}"))
DRIVERS = ("token", "csr")
"""How add-ons get their credential, cluster by cluster in turn, so that both ways are seen."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `run` returns what to say of it when it is done."""

    key: str
    title: str
    run: Callable[[Site, Tell], Awaitable[str]]
    of_clusters: bool = True  # left out when there are none


async def start_planes(site: Site, tell: Tell) -> str:
    """Serve a Kubernetes API for the hub and for every cluster."""
    tell(site.hub.name)
    await site.start_members([site.hub])
    tell(_count(site.clusters))
    await site.start_members(site.clusters)
    site.write_kubeconfig()
    return f"hub and {_count(site.clusters)} on loopback ports" if site.clusters else "hub on a loopback port"


async def make_hub(site: Site, tell: Tell) -> str:
    """Make one of them a hub: an operator and a ClusterManager, which deploys the controllers."""
    server = site.hub.instance.server
    tell("operator, kinds, roles and cluster-info")
    await set_up_hub(site.hub.client, HubSetup(ClusterInfo((server,), site.authorities)))
    site.observer = await site.stack.enter_async_context(
        observing(site.hub.client, {}, extra=(EVENT_SOURCE, LEASE_SOURCE, HUB_LEASE_SOURCE))
    )
    tell("operator at work, waiting for the controllers")
    await site.watching.until(lambda: is_heard(site.hub_lease(), site.since))
    return server


async def make_token(site: Site, tell: Tell) -> str:
    """Make the token by which clusters find the hub and introduce themselves."""
    record = site.token = await ensure_token(TokenStore(site.hub.client), TokenWish(), now=site.clock.now())
    look = SignatureLook(record.token.id)

    def signed() -> bool:
        missing = look(site.watching.cache.get(CONFIG_MAPS, CLUSTER_INFO))
        if missing:
            tell(missing)
        return not missing

    await site.watching.until(signed)
    return f"token {record.token.id}, good for a day"


async def discover_hub(site: Site, tell: Tell) -> str:
    """Let each cluster find the hub by address, token and pin, and believe it for the right reason."""
    record = site.token
    assert record is not None, "made in the step before"
    pins = tuple(authority.pin for authority in site.authorities)
    address = HubAddress(site.hub.instance.server, Sensitive(record.token.reveal()), pins=pins)
    discovery = Discovery(HttpsDialer(), Patience(timedelta(seconds=20)), tell)

    async def one(member: Member) -> None:
        site.access[member.name] = await find_hub(discovery, address)

    await each(site.clusters, one)
    return f"signature and CA pin checked by {_count(site.clusters)}"


async def join_clusters(site: Site, tell: Tell) -> str:
    """Give each cluster a Klusterlet and an operator, which deploys the agent; one that joined before stays itself."""
    ways = {member.name: DRIVERS[number % len(DRIVERS)] for number, member in enumerate(site.clusters)}

    async def one(member: Member) -> None:
        membership = Membership(member.name, addon_auth=ways[member.name], addon_token_seconds=A_DAY)
        await join(member.client, membership, site.access[member.name])

    tell("operators and Klusterlets")
    await each(site.clusters, one)
    names = set(ways)

    def introduced() -> bool:
        known = {cluster["metadata"]["name"] for cluster in site.watching.clusters()} & names
        tell(f"{len(known)} of {len(names)} known to the hub")
        return known == names

    await site.watching.until(introduced)
    return f"{_count(site.clusters)} known to the hub"


async def accept_clusters(site: Site, tell: Tell) -> str:
    """Accept each cluster as an administrator would: once it has asked, and nothing contradicts it."""
    keeper = Doorkeeper(HubDesk(site.hub.client, site.clock), Terms())
    accepted: list[str] = []

    async def one(member: Member) -> None:
        await site.watching.until(lambda: can_be_decided(cluster_of(site, member.name), site.watching.requests()))
        cluster = cluster_of(site, member.name)
        if cluster is not None and not is_decided(cluster):
            await keeper.accept(member.name)
            accepted.append(member.name)
            tell(f"accepted {member.name}")

    await asyncio.gather(*(one(member) for member in site.clusters))
    return f"accepted {len(accepted)} of {len(site.clusters)}" if accepted else "all accepted before"


async def await_members(site: Site, tell: Tell) -> str:
    """Wait until every accepted cluster has joined, works, and reports its credential."""
    names = [member.name for member in site.clusters]

    def settled() -> bool:
        ready = [name for name in names if is_settled(cluster_of(site, name), site.lease_of(name), site.since)]
        tell(f"{len(ready)} of {len(names)} available")
        return len(ready) == len(names)

    await site.watching.until(settled)
    return f"{_count(site.clusters)} available, each with its own certificate"


async def enable_addon(site: Site, tell: Tell) -> str:
    """Enable the sample add-on, with a token on one cluster and a certificate on the other."""
    members = await start_sample(site)

    def served() -> bool:
        addons = {addon["metadata"]["namespace"]: addon for addon in site.watching.addons()}
        ready = [member.name for member in members if is_served(addons.get(member.name))]
        tell(f"{len(ready)} of {len(members)} at work")
        return len(ready) == len(members)

    await site.watching.until(served)
    ways = [f"{member.name} by {DRIVERS[number % len(DRIVERS)]}" for number, member in enumerate(members)]
    return f"sample-addon at work on {' and '.join(ways)}"


def cluster_of(site: Site, name: str) -> Object | None:
    """Return a ManagedCluster as the hub last told it."""
    return site.watching.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))


def can_be_decided(cluster: Object | None, requests: Sequence[Object]) -> bool:
    """Whether a cluster can be decided about: it was before, or its request is there.

    A request that is approved already counts: a crash may come between the approval and the acceptance.
    """
    if cluster is None:
        return False
    name = cluster["metadata"]["name"]
    asked = any(labels_of(csr).get(Label.CLUSTER_NAME) == name for csr in requests)
    return asked or is_decided(cluster)


def is_decided(cluster: Object) -> bool:
    """Whether the administrator accepted or denied a cluster already: a denial stands."""
    accepted = (cluster.get("spec") or {}).get("hubAcceptsClient") is True
    return accepted or find_condition(cluster, ConditionType.HUB_ACCEPTED) is not None


def is_settled(cluster: Object | None, lease: Object | None, since: datetime) -> bool:
    """Whether nothing more is to be expected of a cluster: it works and reports, its agent is heard, or it was denied.

    Conditions outlive a restart; a lease that was renewed since proves that somebody is there.
    """
    if cluster is None:
        return False
    if (cluster.get("spec") or {}).get("hubAcceptsClient") is not True:
        return is_decided(cluster)
    wanted = (ConditionType.JOINED, ConditionType.AVAILABLE, ConditionType.CERTIFICATE_ROTATED)
    return all(is_true(cluster, type_) for type_ in wanted) and is_heard(lease, since)


def is_heard(lease: Object | None, since: datetime) -> bool:
    """Whether the holder of a lease has renewed it since then."""
    renewed = ((lease or {}).get("spec") or {}).get("renewTime") or ""
    return str(renewed) >= rfc3339_micro(since)


def _count(clusters: list[Member]) -> str:
    return "1 cluster" if len(clusters) == 1 else f"{len(clusters)} clusters"


STEPS: tuple[Step, ...] = (
    Step("planes", "Start the control planes", start_planes, of_clusters=False),
    Step("hub", "Make one a hub", make_hub, of_clusters=False),
    Step("token", "Make a join token", make_token, of_clusters=False),
    Step("discovery", "Find the hub by the token", discover_hub),
    Step("join", "Join the hub", join_clusters),
    Step("acceptance", "Accept the clusters", accept_clusters),
    Step("members", "Wait for the members", await_members),
    Step("add-on", "Enable the sample add-on", enable_addon),
)


def choose_steps(clusters: int) -> tuple[Step, ...]:
    """Return the steps that there are for so many clusters."""
    return tuple(step for step in STEPS if clusters or not step.of_clusters)
