"""Every promise the hub keeps about add-ons, as data."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.addons.controllers import AddonParts, controllers, follow
from watchword.api.meta import Object
from watchword.api.names import Label
from watchword.api.resources import (
    ADDON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADDONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from watchword.hub.addons.feature_labels import FeatureLabelReconciler, clusters_concerned
from watchword.hub.addons.install_strategy import InstallStrategyReconciler, Strategies
from watchword.hub.addons.installation import AddonInstallationReconciler
from watchword.hub.addons.placements import PlacementFollower, Placements
from watchword.hub.addons.templates import TemplateCatalog
from watchword.hub.addons.token_infrastructure import TokenInfrastructureReconciler, concerned_by_cluster
from watchword.hub.addons.token_manifests import of_addon
from watchword.hub.controllers import HubParts
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import Bell, ControllerSpec, Wake

TOKEN_OBJECTS = Scope(labels=f"{Label.TOKEN_INFRASTRUCTURE}=true")


def addon_extension(parts: HubParts) -> Iterable[ControllerSpec]:
    """Return the hub's promises about add-ons, for the process that keeps those about clusters."""
    _follow(parts.cache)
    templates = TemplateCatalog(parts.cache, parts.signing_namespaces)
    described = tuple(Wake(kind, templates.concerned) for kind in (ADDON_TEMPLATES, CLUSTER_MANAGEMENT_ADDONS))
    yield _token_infrastructure(parts)
    yield from _installation(parts)
    yield ControllerSpec(
        "addon-feature-labels",
        MANAGED_CLUSTERS,
        FeatureLabelReconciler(parts.cache, parts.client),
        (Wake(MANAGED_CLUSTER_ADDONS, lambda obj: clusters_concerned(parts.cache, obj)),),
    )
    yield from controllers(
        AddonParts(parts.cache, parts.client, parts.events, parts.clock, templates, described, approves=True)
    )


def _follow(cache: Cache) -> None:
    for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
        cache.informer(resource, TOKEN_OBJECTS)
    for resource in (CLUSTER_MANAGEMENT_ADDONS, ADDON_TEMPLATES):
        cache.informer(resource)
    follow(cache)
    cache.index(MANAGED_CLUSTER_ADDONS, "name", lambda obj: [obj["metadata"]["name"]])


def _token_infrastructure(parts: HubParts) -> ControllerSpec:
    reconciler = TokenInfrastructureReconciler(
        parts.cache, parts.client, parts.ensurer, parts.status, parts.events, parts.clock
    )
    wakes = tuple(Wake(resource, of_addon) for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS))
    by_cluster = Wake(MANAGED_CLUSTERS, lambda obj: concerned_by_cluster(parts.cache, obj))
    return ControllerSpec("token-infrastructure", MANAGED_CLUSTER_ADDONS, reconciler, (*wakes, by_cluster), workers=16)


def _installation(parts: HubParts) -> Iterable[ControllerSpec]:
    placements = Placements(parts.cache)
    strategies = Strategies(parts.cache, placements)
    installing = AddonInstallationReconciler(parts.cache, parts.client, strategies)
    judging = InstallStrategyReconciler(strategies, parts.status)
    decided, settled = Bell(), Bell()

    def tell(decision: Object) -> None:
        decided.ring_all(installing.by_decision(decision))

    def tell_all() -> None:
        decided.ring_all(installing.by_placements())
        settled.ring_all(judging.by_placements())

    following = PlacementFollower(placements, tell, tell_all)
    wakes = (
        Wake(CLUSTER_MANAGEMENT_ADDONS, installing.by_kind),
        Wake(MANAGED_CLUSTERS, installing.by_cluster),
        Wake(MANAGED_CLUSTER_SETS, installing.by_set),
    )
    by_set = (Wake(MANAGED_CLUSTER_SETS, judging.by_set),)
    yield ControllerSpec("addon-installation", MANAGED_CLUSTER_ADDONS, installing, wakes, bell=decided)
    yield ControllerSpec("addon-install-strategy", CLUSTER_MANAGEMENT_ADDONS, judging, by_set, workers=1, bell=settled)
    yield ControllerSpec("placement-decisions", CUSTOM_RESOURCE_DEFINITIONS, following, workers=1)
