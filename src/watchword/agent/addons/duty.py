"""The agent's promises about add-ons, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from watchword.agent.addons.book import INDEX, AddonBook
from watchword.agent.addons.credentials import AddonCredentials
from watchword.agent.addons.declaration import AddonDeclarationReconciler
from watchword.agent.addons.health import AddonHealthReconciler
from watchword.agent.addons.secrets import AddonSecretReconciler, FollowNamespace, wait_briefly
from watchword.agent.agent import HUB, DutyParts
from watchword.agent.credential import CredentialReconciler
from watchword.agent.options import AgentOptions
from watchword.agent.scopes import only, requests_of
from watchword.agent.secret_data import HubKubeconfigs
from watchword.api.meta import Object, ObjectKey, Resource, labels_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, LEASES, MANAGED_CLUSTER_ADDONS, SECRETS
from watchword.drivers.catalog import find_addon_driver
from watchword.drivers.interface import AgentContext
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import ControllerSpec, Wake


def addon_duty(parts: DutyParts) -> Iterable[ControllerSpec]:
    """Return what an accepted cluster's agent does for add-ons."""
    options = replace(parts.options, addon_auth=find_addon_driver(parts.options.addon_auth, parts.catalog).name)
    name = options.cluster_name
    book = AddonBook(parts.hub.cache, name, options.addon_namespace)
    marked = Scope(options.addon_namespace, labels=f"{Label.CLUSTER_NAME}={name},{Label.ADDON_NAME}")
    own_secret = options.secret_key
    cache = parts.cluster.cache
    cache.informer(SECRETS, marked)  # one watch for all add-ons
    cache.informer(SECRETS, only(own_secret))
    cache.expect(LEASES)  # most clusters have no add-on that renews one
    _follow_hub(parts.hub.cache, book)
    credentials = _credentials(parts, book, options)
    keeper = CredentialReconciler(
        cache, parts.cluster.client, credentials.find, credentials.report, parts.clock, parts.note
    )
    keeping = AddonSecretReconciler(
        cache, parts.cluster.client, credentials, keeper, follower(cache, SECRETS, marked.labels), own_secret
    )
    declaration = AddonDeclarationReconciler(parts.hub.cache, parts.hub.status, options.addon_auth)
    health = AddonHealthReconciler(
        parts.hub.cache, cache, parts.hub.status, parts.clock, options.addon_namespace, follower(cache, LEASES)
    )
    to_secrets = (
        Wake(MANAGED_CLUSTER_ADDONS, book.keys, origin=HUB),
        Wake(CERTIFICATE_SIGNING_REQUESTS, lambda obj: _of_request(book, obj), origin=HUB),
        Wake(SECRETS, lambda obj: book.all_keys() if ObjectKey.of(obj) == own_secret else ()),
    )
    to_addon = Wake(LEASES, lambda obj: [ObjectKey(name, obj["metadata"]["name"])])
    yield ControllerSpec("addon-declaration", MANAGED_CLUSTER_ADDONS, declaration, origin=HUB)
    yield ControllerSpec("addon-credential", SECRETS, keeping, to_secrets)
    yield ControllerSpec("addon-health", MANAGED_CLUSTER_ADDONS, health, (to_addon,), origin=HUB)


def follower(cache: Cache, resource: Resource, labels: str = "") -> FollowNamespace:
    """Return what follows a kind in one more namespace."""

    async def follow(namespace: str) -> None:
        whole = (informer.scope for informer in cache.informers(resource) if not informer.scope.fields)
        if any(scope.covers(namespace) for scope in whole):
            return
        await wait_briefly(cache.informer(resource, Scope(namespace, labels=labels)).sync())

    return follow


def _follow_hub(cache: Cache, book: AddonBook) -> None:
    cache.informer(MANAGED_CLUSTER_ADDONS, Scope(book.cluster))
    cache.informer(CERTIFICATE_SIGNING_REQUESTS, requests_of(book.cluster))
    cache.index(MANAGED_CLUSTER_ADDONS, INDEX, book.index)


def _credentials(parts: DutyParts, book: AddonBook, options: AgentOptions) -> AddonCredentials:
    context = AgentContext(parts.hub.client, parts.hub.cache, parts.clock, parts.new_key)
    drivers = {entry.name: entry.agent(context) for entry in parts.catalog if entry.for_addons}
    return AddonCredentials(
        book,
        parts.cluster.cache,
        parts.hub.status,
        parts.cluster.events,
        drivers,
        options,
        HubKubeconfigs(parts.hub_entry),
        parts.credentials,
        parts.clock,
        parts.is_itself,
    )


def _of_request(book: AddonBook, request: Object) -> list[ObjectKey]:
    return book.keys_of(labels_of(request).get(Label.ADDON_NAME, ""))
