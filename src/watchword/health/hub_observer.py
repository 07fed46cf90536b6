"""What a hub knows, followed by watching it: for views that stay open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, Resource
from watchword.api.resources import EVENTS, MANAGED_CLUSTERS, SECRETS
from watchword.health.facts import SOURCES, HubFacts, facts_by_source, read_each_pull_secret, sort_by_creation
from watchword.health.recent_events import FleetEvent, collect_fleet_events
from watchword.kube.client import Client
from watchword.pullsecrets.pull_secret import OF_PULL_SECRETS, PullSecret, project_pull_secret
from watchword.runtime.cache import Cache
from watchword.runtime.informer import DeltaHandler, WatchScope
from watchword.runtime.raw_objects import Projection


class HubObserver(Struct):
    """Follows a hub; `facts` is instant, `until` waits for a change that makes something true."""

    cache: Cache
    unseen: dict[str, str] = field(default_factory=dict)
    with_pull_secrets: bool = False  # among the facts; they are followed then
    changes: int = 0
    _listeners: list[DeltaHandler] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def facts(self) -> HubFacts:
        found = facts_by_source({name: self._list(name) for name in SOURCES}, self.unseen)
        return replace(found, accounts=self.accounts(), pull_secrets=self._pull_secrets())

    def own_facts(self) -> HubFacts:
        """Return what the rules about the hub itself need, without decoding its fleet."""
        fleet = ("clusters", "add-ons", "leases of clusters")
        found = {name: self._list(name) for name in SOURCES if name not in fleet}
        names = self.cache.keys(MANAGED_CLUSTERS) if self.cache.informers(MANAGED_CLUSTERS) else ()
        clusters: list[Object] = [{"metadata": {"name": key.name}} for key in names]
        return replace(facts_by_source(found, self.unseen), clusters=clusters)

    def clusters(self) -> Sequence[Object]:
        return self._list("clusters")

    def addons(self) -> Sequence[Object]:
        return self._list("add-ons")

    def accounts(self) -> Sequence[Object]:
        followed = [kind for kind in ACCOUNT_KINDS if self.cache.informers(kind)]
        return [account for kind in followed for account in self.cache.list(kind)]

    def requests(self) -> Sequence[Object]:
        """Return the certificate requests of clusters and add-ons, the oldest first."""
        return sort_by_creation(self._list("certificate requests"))

    def recent_events(self) -> Sequence[FleetEvent]:
        """Return what happened, the latest last."""
        events = self.cache.list(EVENTS) if self.cache.informers(EVENTS) else ()
        return collect_fleet_events((*self.clusters(), *self.addons()), events)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Wait until something is true of what is known."""
        while not predicate():
            await self.change()

    async def change(self, since: int | None = None) -> None:
        """Wait for the next change, or return at once when there were some since that number of them."""
        if since is None or since == self.changes:
            self._changed.clear()
            await self._changed.wait()

    def follow(self, resource: Resource, scope: WatchScope, project: Projection | None = None) -> None:
        is_new = not self.cache.informers(resource)
        self.cache.informer(resource, scope, project=project)
        if is_new:
            for handler in (self.notify_change, *self._listeners):
                self.cache.add_handler(resource, handler)

    def subscribe(self, listener: DeltaHandler) -> None:
        """Call a listener for every known object and for every change, of the kinds followed now and later."""
        self._listeners.append(listener)
        for resource in dict.fromkeys(informer.resource for informer in self.cache.informers()):
            self.cache.add_handler(resource, listener)

    def notify_change(self, _: object = None) -> None:
        self.changes += 1
        self._changed.set()

    def _pull_secrets(self) -> Sequence[PullSecret] | None:
        return read_each_pull_secret(self.cache.list(SECRETS)) if self.with_pull_secrets else None

    def _list(self, source: str) -> Sequence[Object]:
        resource, scope = SOURCES[source]
        found = (informer for informer in self.cache.informers(resource) if informer.scope == scope)
        rows = {key: obj for informer in found for key, obj in informer.store.select()}
        return [rows[key] for key in sorted(rows)]


@asynccontextmanager
async def observe_hub(
    client: Client,
    unseen: dict[str, str],
    *,
    extra: Sequence[tuple[Resource, WatchScope]] = (),
    pull_secrets: bool = False,
    absent: Collection[str] = (),
) -> AsyncIterator[HubObserver]:
    """Follow everything that can be seen of a hub; entered once all of it is known."""
    cache = Cache.of(client)
    observer = HubObserver(cache, unseen, pull_secrets)
    visible = [row for name, row in SOURCES.items() if name not in unseen and name not in absent]
    for resource, scope in (*visible, *extra):
        observer.follow(resource, scope)
    if pull_secrets:
        observer.follow(SECRETS, OF_PULL_SECRETS, project_pull_secret)
    running = asyncio.create_task(cache.run(), name="observer")
    try:
        await cache.sync()
        yield observer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
