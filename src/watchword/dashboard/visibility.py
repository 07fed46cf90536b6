"""What one person may see: asked of the API server right by right, then applied to the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.admin.inventory_rows import HubFacts
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, Resource
from watchword.api.resources import EVENTS, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, SECRETS
from watchword.dashboard.sources import DASHBOARD_SOURCES, FleetFacts, Source
from watchword.kube.access_reviews import UserIdentity, may
from watchword.kube.client import Client

REVIEWS_AT_ONCE = 16
NOT_ALLOWED = "you may not list them"
PARTLY = "you may see those of {count} only"


class Visibility(Struct, frozen=True):
    """The sources that one person sees, wholly or in part; None as parts means wholly."""

    parts: Mapping[Source, frozenset[str] | None] = field(default_factory=dict)
    everything: bool = False

    def allows(self, resource: Resource, part: str, scope_namespace: str = "") -> bool:
        """Whether an object of a kind, in a namespace or with a cluster's name, may be seen."""
        if self.everything:
            return True
        for source, parts in self.parts.items():
            if source.resource is resource and source.scope.namespace == scope_namespace:
                return parts is None or part in parts
        return False

    def explain(self, unseen: Mapping[str, str]) -> dict[str, str]:
        """Return what is left out and why, what the dashboard itself cannot read included."""
        if self.everything:
            return dict(unseen)
        found = dict(unseen)
        for source in DASHBOARD_SOURCES:
            parts = self.parts.get(source, frozenset())
            if parts is not None and source.name not in found:
                noun = "cluster" if len(parts) == 1 else "clusters"
                found[source.name] = PARTLY.format(count=f"{len(parts)} {noun}") if parts else NOT_ALLOWED
        return found


EVERYTHING = Visibility(everything=True)


async def review_visibility(client: Client, who: UserIdentity, places: Iterable[str]) -> Visibility:
    """Ask what a person may list; where a whole kind is refused, ask for each cluster and its namespace."""
    limit, known = asyncio.Semaphore(REVIEWS_AT_ONCE), sorted(set(places))

    async def ask(source: Source, part: str = "") -> bool:
        async with limit:
            return await may(client, who, source.access(part))

    async def parts(source: Source) -> frozenset[str] | None:
        if await ask(source):
            return None
        if not source.divisible:
            return frozenset()
        allowed = await asyncio.gather(*(ask(source, part) for part in known))
        return frozenset(part for part, seen in zip(known, allowed, strict=True) if seen)

    found = await asyncio.gather(*(parts(source) for source in DASHBOARD_SOURCES))
    return Visibility(dict(zip(DASHBOARD_SOURCES, found, strict=True)))


def limit_facts(facts: FleetFacts, seen: Visibility) -> FleetFacts:
    """Return only what a person may see: every page is built from this, so none can show more."""
    if seen.everything:
        return facts
    hub = facts.hub
    wholly = {source.name for source, parts in seen.parts.items() if parts is None}
    return FleetFacts(
        replace(
            hub,
            clusters=[each for each in hub.clusters if seen.allows(MANAGED_CLUSTERS, _name(each))],
            addons=_in_namespaces(hub.addons, MANAGED_CLUSTER_ADDONS, seen),
            requests=hub.requests if "certificate requests" in wholly else (),
            tokens=hub.tokens if "join tokens" in wholly else (),
            authorities=hub.authorities if "the hub's authority" in wholly else (),
            accounts=_accounts(hub, seen),
            unseen=seen.explain(hub.unseen),
        ),
        _in_namespaces(facts.pull_secrets, SECRETS, seen),
        _in_namespaces(facts.events, EVENTS, seen),
    )


def _accounts(hub: HubFacts, seen: Visibility) -> list[Object]:
    kinds = {(kind.api_version, kind.kind): kind for kind in ACCOUNT_KINDS}
    return [
        each
        for each in hub.accounts
        if (kind := kinds.get((each.get("apiVersion", ""), each.get("kind", "")))) is not None
        and seen.allows(kind, each["metadata"]["namespace"])
    ]


def _in_namespaces(objects: Sequence[Object], resource: Resource, seen: Visibility) -> list[Object]:
    return [each for each in objects if seen.allows(resource, each["metadata"].get("namespace") or "")]


def _name(cluster: Object) -> str:
    return str(cluster["metadata"]["name"])
