"""Measures how long credentials still live, and how long a denied cluster keeps its rights."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from msgspec import Struct, field

from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY
from watchword.api.cluster import Cluster
from watchword.api.credential_report import CredentialValidity, parse_validity
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.api.time import parse_rfc3339
from watchword.discovery.cluster_info import read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.token_secret import TokenRecord, read_token_secret
from watchword.registration.driver import HubServer, PublishedCertificate
from watchword.registration.hub.cluster_acceptance import has_cluster_rbac
from watchword.registration.hub.cluster_drivers import HubDrivers
from watchword.registration.hub.controllers import cluster_from_label
from watchword.registration.hub.credential_events import FindCredential
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, Trigger


class MeasuredCredentials(Struct):
    """The credentials that are measured; what ends first is read at every scrape."""

    metrics: CredentialMetrics
    clock: Clock
    known: dict[tuple[str, str], dict[str, CredentialValidity]] = field(default_factory=dict)

    def observe(self, kind: str, cluster: str, name: str, validity: CredentialValidity | None) -> None:
        """Measure a credential; without an expiry, measure it no more."""
        alike = self.known.setdefault((kind, cluster), {})
        if validity is not None and validity.expires is not None:
            alike[name] = validity
            self.metrics.watch_expiry(kind, cluster, lambda: self._remaining(kind, cluster))
            return
        alike.pop(name, None)
        if not alike:
            del self.known[kind, cluster]
            self.metrics.forget(kind, cluster)

    def _remaining(self, kind: str, cluster: str) -> RemainingLife:
        return remaining_life(self.known.get((kind, cluster), {}).values(), now=self.clock.now())


class CredentialExpiryReconciler(Struct, frozen=True):
    """Reconciles one kind of object that reports a credential; sends nothing, so it costs next to nothing."""

    reader: Reader
    resource: Resource
    kind: str
    read: Callable[[Object], CredentialValidity | None]
    measured: MeasuredCredentials
    cluster_of: Callable[[ObjectKey], str] = lambda key: key.namespace or key.name

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(self.resource, key)
        validity = self.read(found) if found is not None else None
        self.measured.observe(self.kind, self.cluster_of(key), f"{self.resource.group}/{key}", validity)
        return Done()


CLUSTER, ADDON, AUTHORITY, JOIN_TOKEN = "cluster", "addon", "authority", "join-token"
SERVER_AUTHORITY, SERVER_CERTIFICATE = "server-authority", "server-certificate"


def expiry_controllers(
    reader: Reader, measured: MeasuredCredentials, drivers: HubDrivers, addon_credential: FindCredential
) -> Iterable[ControllerSpec]:
    """Return the measurements as controllers; they send nothing."""

    def validity_by(find: FindCredential) -> Callable[[Object], CredentialValidity | None]:
        def read(found: Object) -> CredentialValidity | None:
            said = find(found)
            return parse_validity(said.message) if said is not None else None

        return read

    of_cluster, of_addon = validity_by(drivers.catalog.find_credential), validity_by(addon_credential)
    clusters = CredentialExpiryReconciler(reader, MANAGED_CLUSTERS, CLUSTER, of_cluster, measured)
    addons = CredentialExpiryReconciler(reader, MANAGED_CLUSTER_ADDONS, ADDON, of_addon, measured)
    authority = CredentialExpiryReconciler(
        reader, CONFIG_MAPS, AUTHORITY, read_authority_validity, measured, cluster_of=lambda _: ""
    )
    tokens = CredentialExpiryReconciler(
        reader, SECRETS, JOIN_TOKEN, read_join_token_validity, measured, cluster_of=lambda _: ""
    )
    yield ControllerSpec("credential-expiry", MANAGED_CLUSTERS, clusters, workers=1)
    yield ControllerSpec("addon-credential-expiry", MANAGED_CLUSTER_ADDONS, addons, workers=1)
    yield ControllerSpec("authority-expiry", CONFIG_MAPS, authority, workers=1)
    yield ControllerSpec("join-token-expiry", SECRETS, tokens, workers=1)
    for server in drivers.servers:
        yield from _server_expiry_controllers(reader, measured, server)


def _server_expiry_controllers(
    reader: Reader, measured: MeasuredCredentials, server: HubServer
) -> Iterable[ControllerSpec]:
    for certificate in server.certificates:
        kind = SERVER_AUTHORITY if certificate.is_authority else SERVER_CERTIFICATE
        read = partial(read_published_validity, server, certificate)
        reconciler = CredentialExpiryReconciler(reader, CONFIG_MAPS, kind, read, measured, cluster_of=lambda _: "")
        yield ControllerSpec(f"{server.name}-{kind}-expiry", CONFIG_MAPS, reconciler, workers=1)


def read_published_validity(
    server: HubServer, certificate: PublishedCertificate, config_map: Object
) -> CredentialValidity | None:
    """Return the validity of a certificate that a server publishes; None for any other ConfigMap."""
    held = certificate.read(config_map) if ObjectKey.of(config_map) == server.published else None
    return None if held is None else CredentialValidity(held.not_before, held.not_after)


def read_join_token_validity(secret: Object) -> CredentialValidity | None:
    """Return from when to when a join token lives; None for one that never expires, and for any other Secret."""
    record = read_token_secret(secret)
    if not isinstance(record, TokenRecord):
        return None
    return CredentialValidity(parse_rfc3339(str(secret["metadata"].get("creationTimestamp") or "")), record.expires)


def read_authority_validity(config_map: Object) -> CredentialValidity | None:
    """Return the validity of the authority that is published to clusters and ends last: the others are predecessors."""
    if ObjectKey.of(config_map) != CLUSTER_INFO:
        return None
    try:
        found = read_cluster_info((config_map.get("data") or {}).get(KUBECONFIG_KEY) or "").authorities
    except ClusterInfoRefused:
        return None
    last = max(found, key=lambda each: each.not_after, default=None)
    return None if last is None else CredentialValidity(last.not_before, last.not_after)


class RevocationTimeReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; triggered by its rights. Sends nothing.

    Counted are denials. A cluster that is deleted keeps its rights on purpose, until its agent has finished.
    """

    reader: Reader
    metrics: CredentialMetrics
    clock: Clock
    holders: set[str] = field(default_factory=set)  # clusters that had rights at the last reconcile
    denied: dict[str, datetime] = field(default_factory=dict)  # since when, as this process saw it

    async def reconcile(self, key: ObjectKey) -> Outcome:
        name, found = key.name, self.reader.get(MANAGED_CLUSTERS, key)
        holds = has_cluster_rbac(self.reader, name)
        if holds:
            self.holders.add(name)
        if found is None or Cluster.read(found).accepted:
            self.denied.pop(name, None)
        elif name in self.holders:
            self.denied.setdefault(name, self.clock.now())
        if not holds:
            self.holders.discard(name)
            since = self.denied.pop(name, None)
            if since is not None:
                self.metrics.revoked_after(max(0.0, (self.clock.now() - since).total_seconds()))
        return Done()


def _is_accepted(cluster: Object) -> bool:
    return Cluster.read(cluster).accepted


def revocation_controllers(reader: Reader, metrics: CredentialMetrics, clock: Clock) -> Iterable[ControllerSpec]:
    rights = tuple(Trigger(resource, cluster_from_label) for resource in (CLUSTER_ROLES, ROLE_BINDINGS))
    reconciler = RevocationTimeReconciler(reader, metrics, clock)
    yield ControllerSpec("revocation-time", MANAGED_CLUSTERS, reconciler, rights, workers=1, facts=_is_accepted)
