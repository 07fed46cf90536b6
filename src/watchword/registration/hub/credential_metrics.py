"""Measures how long credentials still live, and how long a denied cluster keeps its rights."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import TypeAlias

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
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import Observer, Reader


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


CLUSTER, ADDON, AUTHORITY, JOIN_TOKEN = "cluster", "addon", "authority", "join-token"
SERVER_AUTHORITY, SERVER_CERTIFICATE = "server-authority", "server-certificate"
ReadValidity: TypeAlias = Callable[[Object], CredentialValidity | None]


def expiry_metrics(
    measured: MeasuredCredentials, drivers: HubDrivers, addon_credential: FindCredential
) -> Iterable[Observer]:

    def observer(resource: Resource, kind: str, read: ReadValidity) -> Observer:
        def observe(delta: Delta) -> None:
            cluster = delta.key.namespace or delta.key.name if kind in (CLUSTER, ADDON) else ""
            validity = read(delta.new) if delta.new is not None else None
            measured.observe(kind, cluster, f"{resource.group}/{delta.key}", validity)

        return Observer(resource, observe)

    def reported_by(find: FindCredential) -> ReadValidity:
        def read(found: Object) -> CredentialValidity | None:
            said = find(found)
            return parse_validity(said.message) if said is not None else None

        return read

    yield observer(MANAGED_CLUSTERS, CLUSTER, reported_by(drivers.catalog.find_credential))
    yield observer(MANAGED_CLUSTER_ADDONS, ADDON, reported_by(addon_credential))
    yield observer(CONFIG_MAPS, AUTHORITY, read_authority_validity)
    yield observer(SECRETS, JOIN_TOKEN, read_join_token_validity)
    for server in drivers.servers:
        for certificate in server.certificates:
            kind = SERVER_AUTHORITY if certificate.is_authority else SERVER_CERTIFICATE
            yield observer(CONFIG_MAPS, kind, partial(read_published_validity, server, certificate))


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


class RevocationTimes(Struct, frozen=True):
    """Observes clusters and their rights.

    Counted are denials. A cluster that is deleted keeps its rights on purpose, until its agent has finished.
    """

    reader: Reader
    metrics: CredentialMetrics
    clock: Clock
    denied: dict[str, datetime] = field(default_factory=dict)  # with rights; since when, as this process saw it

    def observe_cluster(self, delta: Delta) -> None:
        name = delta.key.name
        if delta.new is None or Cluster.read(delta.new).accepted:
            self.denied.pop(name, None)
        elif has_cluster_rbac(self.reader, name):
            self.denied.setdefault(name, self.clock.now())

    def observe_right(self, delta: Delta) -> None:
        for key in cluster_from_label(delta.new or delta.old or {}) if self.denied else ():
            since = self.denied.get(key.name)
            if since is not None and not has_cluster_rbac(self.reader, key.name):
                del self.denied[key.name]
                self.metrics.revoked_after(max(0.0, (self.clock.now() - since).total_seconds()))


def revocation_metrics(reader: Reader, metrics: CredentialMetrics, clock: Clock) -> Iterable[Observer]:
    times = RevocationTimes(reader, metrics, clock)
    yield Observer(MANAGED_CLUSTERS, times.observe_cluster)
    for resource in (CLUSTER_ROLES, ROLE_BINDINGS):
        yield Observer(resource, times.observe_right)
