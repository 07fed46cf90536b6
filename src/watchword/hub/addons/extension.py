"""Every promise the hub keeps about add-ons, as data."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.api.names import Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.hub.addons.token_infrastructure import TokenInfrastructureReconciler, concerned_by_cluster
from watchword.hub.addons.token_manifests import of_addon
from watchword.hub.controllers import HubParts
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import ControllerSpec, Wake

TOKEN_OBJECTS = Scope(labels=f"{Label.TOKEN_INFRASTRUCTURE}=true")


def addon_extension(parts: HubParts) -> Iterable[ControllerSpec]:
    """Return the hub's promises about add-ons, for the process that keeps those about clusters."""
    cache = parts.cache
    for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
        cache.informer(resource, TOKEN_OBJECTS)
    cache.index(MANAGED_CLUSTER_ADDONS, "cluster", lambda obj: [obj["metadata"]["namespace"]])
    yield _token_infrastructure(parts)


def _token_infrastructure(parts: HubParts) -> ControllerSpec:
    reconciler = TokenInfrastructureReconciler(
        parts.cache, parts.client, parts.ensurer, parts.status, parts.events, parts.clock
    )
    wakes = tuple(Wake(resource, of_addon) for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS))
    by_cluster = Wake(MANAGED_CLUSTERS, lambda obj: concerned_by_cluster(parts.cache, obj))
    return ControllerSpec("token-infrastructure", MANAGED_CLUSTER_ADDONS, reconciler, (*wakes, by_cluster), workers=16)
