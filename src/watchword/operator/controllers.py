"""The operator's controllers as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from watchword.api.images import IMAGE
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Label
from watchword.api.resources import (
    APPLIED_MANIFEST_WORKS,
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CRON_JOBS,
    DEPLOYMENTS,
    KLUSTERLETS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from watchword.drivers.catalog import CATALOG
from watchword.operator.applier import OWNER_ANNOTATION, owners_of
from watchword.operator.cluster_manager import ClusterManagerReconciler
from watchword.operator.klusterlet import KlusterletReconciler
from watchword.operator.klusterlet_manifests import namespace_of
from watchword.operator.rendering import MANAGED_BY
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Trigger

DEPLOYED = (
    *(DEPLOYMENTS, CRON_JOBS, SERVICE_ACCOUNTS, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, NAMESPACES),
    *((SERVICES,) if CATALOG.servers else ()),
)
OURS = WatchScope(labels=f"{Label.MANAGED_BY}={MANAGED_BY}")
AGENT_SECRETS = (HUB_KUBECONFIG_SECRET, BOOTSTRAP_KUBECONFIG_SECRET)


def register_informers(cache: Cache) -> None:
    """Register the informers of everything that the operator reads: of Secrets, only the agent's two."""
    for resource in (KLUSTERLETS, CLUSTER_MANAGERS, APPLIED_MANIFEST_WORKS):
        cache.informer(resource)
    for resource in DEPLOYED:
        cache.informer(resource, OURS)
    for name in AGENT_SECRETS:
        cache.informer(SECRETS, WatchScope(fields=f"metadata.name={name}"))


def controllers(connection: ApiServerConnection, clock: Clock, *, image: str = IMAGE) -> list[ControllerSpec]:
    """Return both controllers: the kind each reconciles, what else triggers it, its reconciler."""
    cache = connection.cache
    agents = KlusterletReconciler(cache, connection.client, connection.status, clock, image)
    hubs = ClusterManagerReconciler(cache, connection.client, connection.status, image)
    to_agent = tuple(Trigger(resource, _owned_by("Klusterlet")) for resource in DEPLOYED)
    to_hub = tuple(Trigger(resource, _owned_by("ClusterManager")) for resource in DEPLOYED)
    secrets = Trigger(SECRETS, lambda secret: _agents_in(cache, secret))
    return [
        ControllerSpec("klusterlet", KLUSTERLETS, agents, (*to_agent, secrets), workers=2),
        ControllerSpec("cluster-manager", CLUSTER_MANAGERS, hubs, to_hub, workers=1),
    ]


def _owned_by(kind: str) -> Callable[[Object], Iterable[ObjectKey]]:
    def keys(obj: Object) -> Iterable[ObjectKey]:
        mark = (obj["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION, "")
        return owners_of(obj) if mark.startswith(f"{kind}/") else []

    return keys


def _agents_in(cache: Cache, secret: Object) -> Iterable[ObjectKey]:
    namespace = secret["metadata"]["namespace"]
    return [ObjectKey.of(each) for each in cache.list(KLUSTERLETS) if namespace_of(each) == namespace]
