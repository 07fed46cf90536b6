"""Gives every active namespace its `default` ServiceAccount and the CA bundle of this control plane.

kube-system also gets the CA of client certificates, where aggregated API servers look for it.
"""

from __future__ import annotations

from collections.abc import Callable

from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, is_deleting
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from watchword.apiserver.controllers.controller import Watches
from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.model import ApiError, Registry

ACCOUNT = "default"
BUNDLE = "kube-root-ca.crt"
BUNDLE_KEY = "ca.crt"
CLIENTS = ObjectKey("kube-system", "extension-apiserver-authentication")
CLIENTS_KEY = "client-ca-file"
DESCRIPTION = "kubernetes.io/description"
_DESCRIBED = "The CA bundle by which clients inside the cluster verify its API server; meant for nothing else."


class NamespaceDefaultsController:
    """Triggered by namespaces, and by the loss or change of what it created there."""

    def __init__(self, registry: Registry, root_bundle: Callable[[], bytes]) -> None:
        self.registry = registry
        self.root_bundle = root_bundle
        self.worker: Worker[str] = Worker("namespace defaults", self.sync)

    def watches(self) -> Watches:
        """Subscribe to namespaces, accounts and bundles."""
        return {
            NAMESPACES: self._namespace_changed,
            SERVICE_ACCOUNTS: self._account_changed,
            CONFIG_MAPS: self._bundle_changed,
        }

    def refresh(self) -> None:
        """Enqueue every namespace: the bundle has changed."""
        for namespace in self.registry.list(NAMESPACES):
            self.worker.enqueue(namespace["metadata"]["name"])

    def _namespace_changed(self, change: str, new: Object) -> None:
        if change == "ADDED" and not is_deleting(new):
            self.worker.enqueue(new["metadata"]["name"])

    def _account_changed(self, change: str, new: Object) -> None:
        if change == "DELETED" and new["metadata"]["name"] == ACCOUNT:
            self.worker.enqueue(new["metadata"]["namespace"])

    def _bundle_changed(self, change: str, new: Object) -> None:
        if change != "ADDED" and new["metadata"]["name"] in (BUNDLE, CLIENTS.name):
            self.worker.enqueue(new["metadata"]["namespace"])

    async def sync(self, name: str) -> float | None:
        """Create or mend both objects of one namespace."""
        namespace = self.registry.get(NAMESPACES, ObjectKey.cluster(name))
        if namespace is None or is_deleting(namespace):
            return None
        if self.registry.get(SERVICE_ACCOUNTS, ObjectKey(name, ACCOUNT)) is None:
            await _create(self.registry, SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(ObjectKey(name, ACCOUNT)))
        await self._publish(ObjectKey(name, BUNDLE))
        if name == CLIENTS.namespace:
            await self._publish_clients()
        return None

    async def _publish(self, key: ObjectKey) -> None:
        wanted = {BUNDLE_KEY: self.root_bundle().decode()}
        found = self.registry.get(CONFIG_MAPS, key)
        if found is None:
            metadata = {"annotations": {DESCRIPTION: _DESCRIBED}}
            await _create(self.registry, CONFIG_MAPS, CONFIG_MAPS.manifest(key, metadata=metadata, data=wanted))
        elif found.get("data") != wanted or DESCRIPTION not in annotations_of(found):
            found["data"] = wanted
            found["metadata"].setdefault("annotations", {})[DESCRIPTION] = _DESCRIBED
            await self.registry.update(CONFIG_MAPS, found)

    async def _publish_clients(self) -> None:
        wanted = {CLIENTS_KEY: self.root_bundle().decode()}
        found = self.registry.get(CONFIG_MAPS, CLIENTS)
        if found is None:
            await _create(self.registry, CONFIG_MAPS, CONFIG_MAPS.manifest(CLIENTS, data=wanted))
        elif (found.get("data") or {}).get(CLIENTS_KEY) != wanted[CLIENTS_KEY]:  # others may add what they know
            found["data"] = {**(found.get("data") or {}), **wanted}
            await self.registry.update(CONFIG_MAPS, found)


async def _create(registry: Registry, resource: Resource, obj: Object) -> None:
    try:
        await registry.create(resource, obj)
    except ApiError as refusal:
        if refusal.reason != "AlreadyExists" and not _ends(refusal):
            raise


def _ends(refusal: ApiError) -> bool:
    """Whether the namespace went away meanwhile."""
    causes = (refusal.details or {}).get("causes") or ()
    return refusal.code == 404 or any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
