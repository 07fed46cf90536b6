"""The hub controller that follows from an add-on's definition, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from watchword.addons import approval, deployment, granting, rights, works
from watchword.addons.approval import AddonApprovalReconciler
from watchword.addons.definition import Definitions
from watchword.addons.deployment import AddonDeploymentReconciler
from watchword.addons.granting import RightsKeeper
from watchword.addons.registration import BY_CLUSTER, RegistrationReconciler, concerned_by_cluster
from watchword.addons.signing import AddonSigningReconciler
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    ROLES,
)
from watchword.kube.client import Client
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.events import EventRecorder
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import ControllerSpec, Wake
from watchword.runtime.status import StatusWriter


@dataclass(frozen=True)
class AddonParts:
    """What an add-on's hub controller is made of."""

    cache: Cache
    client: Client
    events: EventRecorder
    clock: Clock
    definitions: Definitions
    wakes: Sequence[Wake] = ()  # whatever else changes what a definition says
    approves: bool = False  # requests for the hub's own API; a hub of ours does it for everybody

    @property
    def ensurer(self) -> Ensurer:
        """Creates and mends what add-ons need."""
        return Ensurer(self.cache, self.client)

    @property
    def status(self) -> StatusWriter:
        """Writes conditions."""
        return StatusWriter(self.client, self.clock)


MADE_FOR_NOBODY = {
    CLUSTER_ROLES: Scope(labels=f"!{Label.CLUSTER_NAME}"),
    ROLES: Scope(labels=f"!{Label.ADDON_CLUSTER},!{Label.TOKEN_INFRASTRUCTURE}"),
}
"""Roles that a grant may name: those that people made, and not one for each cluster or add-on."""


def follow(cache: Cache, addon: str = "", *, names_roles: bool = True) -> None:
    """Ask the cache for everything that is looked at: of one add-on, or of all."""
    marked = f"{Label.ADDON_NAME}={addon}" if addon else Label.ADDON_NAME
    mine = Scope(fields=f"metadata.name={addon}") if addon else Scope()
    cache.informer(MANAGED_CLUSTER_ADDONS, mine)
    cache.informer(MANAGED_CLUSTERS)
    for resource, scope in MADE_FOR_NOBODY.items() if names_roles else ():
        cache.informer(resource, scope)
    for resource in (ROLES, ROLE_BINDINGS):
        cache.informer(resource, Scope(labels=f"{marked},{Label.ADDON_CLUSTER}"))
        cache.index(resource, granting.INDEX, lambda obj: [str(key) for key in rights.of_addon(obj)])
    cache.index(ROLE_BINDINGS, granting.BY_ROLE, granting.role_bound)
    if not cache.informers(MANIFEST_WORKS):
        cache.informer(MANIFEST_WORKS, Scope(labels=marked))
    if not cache.informers(CERTIFICATE_SIGNING_REQUESTS):
        cache.informer(CERTIFICATE_SIGNING_REQUESTS, Scope(labels=f"{Label.CLUSTER_NAME},{marked}"))
    cache.index(MANAGED_CLUSTER_ADDONS, BY_CLUSTER, lambda obj: [obj["metadata"]["namespace"]])
    cache.index(MANIFEST_WORKS, deployment.INDEX, lambda obj: [str(key) for key in works.of_addon(obj)])
    cache.index(CERTIFICATE_SIGNING_REQUESTS, approval.INDEX, approval.addon_of)


def controllers(parts: AddonParts) -> Iterable[ControllerSpec]:
    """Return every promise of an add-on's hub controller: the kind it is about, what else wakes it, who keeps it."""
    reader, client, ensurer, status = parts.cache, parts.client, parts.ensurer, parts.status
    registration = RegistrationReconciler(
        reader, RightsKeeper(reader, client, ensurer), status, parts.events, parts.definitions
    )
    installing = AddonDeploymentReconciler(reader, client, ensurer, status, parts.definitions)
    granted = tuple(Wake(resource, rights.of_addon) for resource in (ROLES, ROLE_BINDINGS))
    by_cluster = Wake(MANAGED_CLUSTERS, lambda obj: concerned_by_cluster(reader, obj))
    followed = [resource for resource, scope in MADE_FOR_NOBODY.items() if scope in scopes_of(parts.cache, resource)]
    by_role = (Wake(resource, lambda obj: granting.concerned_by_role(reader, obj)) for resource in followed)
    wakes = (*granted, by_cluster, *by_role, *parts.wakes)
    yield ControllerSpec("addon-registration", MANAGED_CLUSTER_ADDONS, registration, wakes)
    yield ControllerSpec(
        "addon-deployment", MANAGED_CLUSTER_ADDONS, installing, (Wake(MANIFEST_WORKS, works.of_addon), *parts.wakes)
    )
    yield from _certificates(parts)


def scopes_of(cache: Cache, resource: Resource) -> list[Scope]:
    """Return which parts of a kind are followed."""
    return [informer.scope for informer in cache.informers(resource)]


def _certificates(parts: AddonParts) -> Iterable[ControllerSpec]:
    reader, client, events, clock = parts.cache, parts.client, parts.events, parts.clock
    approving = AddonApprovalReconciler(reader, client, events, clock, parts.definitions, for_hub=parts.approves)
    signing = AddonSigningReconciler(reader, client, events, clock, parts.definitions)
    waiting = (Wake(MANAGED_CLUSTER_ADDONS, _pending(parts)),)
    yield ControllerSpec("addon-approval", CERTIFICATE_SIGNING_REQUESTS, approving, waiting)
    yield ControllerSpec("addon-signing", CERTIFICATE_SIGNING_REQUESTS, signing, waiting)


def _pending(parts: AddonParts) -> Callable[[Object], list[ObjectKey]]:
    return lambda addon: approval.pending_requests(parts.cache, addon)
