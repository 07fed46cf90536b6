"""What a hub knows, followed by watching it: for views that stay open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct, field

from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Object, Resource
from watchword.api.names import CLUSTER_LEASE, Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    SECRETS,
)
from watchword.discovery.cluster_info import read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.token_secret import TokenRecord, read_token_secret
from watchword.health.inventory_rows import HubFacts
from watchword.health.recent_events import FleetEvent, collect_fleet_events
from watchword.kube.client import Client
from watchword.pki.certificates import Certificate
from watchword.pullsecrets.pull_secret import OF_PULL_SECRETS, PullSecret, project_pull_secret
from watchword.registration.catalog import CATALOG
from watchword.runtime.cache import Cache
from watchword.runtime.informer import DeltaHandler, WatchScope
from watchword.runtime.raw_objects import Projection

SERVER_SOURCES = {
    f"the certificates of the {server.name}": (CONFIG_MAPS, server.published_scope)
    for server in CATALOG.servers
    if server.published_scope is not None
}
SOURCES: dict[str, tuple[Resource, WatchScope]] = {
    "clusters": (MANAGED_CLUSTERS, WatchScope()),
    "add-ons": (MANAGED_CLUSTER_ADDONS, WatchScope()),
    "certificate requests": (CERTIFICATE_SIGNING_REQUESTS, WatchScope(labels=Label.CLUSTER_NAME)),
    "join tokens": (SECRETS, WatchScope(TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}")),
    "the hub's authority": (
        CONFIG_MAPS,
        WatchScope(CLUSTER_INFO.namespace, fields=f"metadata.name={CLUSTER_INFO.name}"),
    ),
    **SERVER_SOURCES,
}
EVENT_SOURCE = (EVENTS, WatchScope())
LEASE_SOURCE = (LEASES, WatchScope(fields=f"metadata.name={CLUSTER_LEASE}"))


class HubObserver(Struct):
    """Follows a hub; `facts` is instant, `until` waits for a change that makes something true."""

    cache: Cache
    unseen: dict[str, str] = field(default_factory=dict)
    with_pull_secrets: bool = False  # among the facts; they are followed then
    changes: int = 0
    _read_from: tuple[str, ...] = ()
    _read: tuple[Certificate, ...] = ()
    _listeners: list[DeltaHandler] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def facts(self) -> HubFacts:
        return HubFacts(
            clusters=self.clusters(),
            addons=self.addons(),
            requests=self.requests(),
            tokens=read_tokens(self._list("join tokens")),
            authorities=self._authorities(),
            pull_secrets=self._pull_secrets(),
            servers=[obj for name in SERVER_SOURCES for obj in self._list(name)],
            accounts=self.accounts(),
            unseen=self.unseen,
        )

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

    def _authorities(self) -> tuple[Certificate, ...]:
        """Read the authorities anew only when their text has changed: certificates are slow to read."""
        published = self._list("the hub's authority")
        texts = tuple(str((each.get("data") or {}).get(KUBECONFIG_KEY)) for each in published)
        if texts != self._read_from:
            self._read_from, self._read = texts, read_authorities(published)
        return self._read

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
        if not self.with_pull_secrets:
            return None
        found = (PullSecret.read(secret) for secret in self.cache.list(SECRETS))
        return [secret for secret in found if secret is not None]

    def _list(self, source: str) -> Sequence[Object]:
        resource, scope = SOURCES[source]
        return () if source in self.unseen else self.cache.list(resource, namespace=scope.namespace)


@asynccontextmanager
async def observe_hub(
    client: Client,
    unseen: dict[str, str],
    *,
    extra: Sequence[tuple[Resource, WatchScope]] = (),
    pull_secrets: bool = False,
) -> AsyncIterator[HubObserver]:
    """Follow everything that can be seen of a hub; entered once all of it is known."""
    cache = Cache.of(client)
    observer = HubObserver(cache, unseen, pull_secrets)
    visible = [row for name, row in SOURCES.items() if name not in unseen]
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


def facts_by_source(found: Mapping[str, Sequence[Object]]) -> HubFacts:
    return HubFacts(
        clusters=found.get("clusters", ()),
        addons=found.get("add-ons", ()),
        requests=sort_by_creation(found.get("certificate requests", ())),
        tokens=read_tokens(found.get("join tokens", ())),
        authorities=read_authorities(found.get("the hub's authority", ())),
        servers=[obj for name in SERVER_SOURCES for obj in found.get(name, ())],
    )


def read_tokens(secrets: Sequence[Object]) -> list[TokenRecord]:
    """Return the join tokens among Secrets; what is none has no effect, and is left out."""
    return [record for record in map(read_token_secret, secrets) if isinstance(record, TokenRecord)]


def read_authorities(config_maps: Sequence[Object]) -> tuple[Certificate, ...]:
    for found in config_maps:
        try:
            return read_cluster_info((found.get("data") or {}).get(KUBECONFIG_KEY) or "").authorities
        except ClusterInfoRefused:
            continue
    return ()


def sort_by_creation(requests: Sequence[Object]) -> list[Object]:
    return sorted(requests, key=lambda request: str(request["metadata"].get("creationTimestamp") or ""))
