"""Reports credentials: Events of what happens to them, and metrics of their remaining validity."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import TypeAlias

from msgspec import Struct, field

from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition
from watchword.api.credential_report import CredentialValidity, parse_validity, without_use
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, labels_of, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.api.time import parse_rfc3339
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.discovery.cluster_info import read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.token_secret import TokenRecord, read_token_secret
from watchword.registration.catalog import HubDrivers
from watchword.registration.driver import HubServer, PublishedCertificate
from watchword.registration.hub.cluster_acceptance import has_cluster_rbac
from watchword.registration.hub.cluster_rbac import cluster_from_label
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import Observer, Reader

FINGERPRINT_LETTERS = 16


class SeenCredential(Struct, frozen=True):
    """What was last seen of a credential; empty for what is not known."""

    uid: str
    validity: str
    owner_key: str
    requested: str  # the last request to renew it


FindCredential: TypeAlias = Callable[[Object], Condition | None]
"""Returns the condition by which a cluster or an add-on reports its credential; None when there is none."""


class CredentialEvents(Struct, frozen=True):
    """Observes one kind whose holders report their credential; what is seen first is no news."""

    resource: Resource
    events: EventRecorder
    find_credential: FindCredential

    def observe(self, delta: Delta) -> None:
        if delta.old is None:
            return
        before = observe_credential(self.resource, delta.old, self.find_credential)
        now = None if delta.new is None else observe_credential(self.resource, delta.new, self.find_credential)
        if delta.new is None or now is None or before.uid != now.uid:
            self._tell_end(delta.key, before)
        else:
            self._tell_change(delta.new, before, now)

    def _tell_end(self, key: ObjectKey, before: SeenCredential) -> None:
        """Report that an add-on was removed; the removal of a cluster is reported once all its objects are gone."""
        if self.resource is MANAGED_CLUSTER_ADDONS:
            addon = self.resource.manifest(key, metadata={"uid": before.uid})
            self.events.normal(addon, "AddonRemoved", f"add-on {key} is gone, and its rights on the hub with it")

    def _tell_change(self, found: Object, before: SeenCredential, now: SeenCredential) -> None:
        key = ObjectKey.of(found)
        if now.requested and before.requested != now.requested:
            self.events.normal(found, "RotationRequested", f"a new credential of {key} was requested: {now.requested}")
        if now.validity and not before.validity:
            self.events.normal(found, "CredentialIssued", f"the first credential of {key} was issued: {now.validity}")
        elif now.validity and before.validity != now.validity:
            self.events.normal(found, "CredentialRotated", f"the credential of {key} was renewed: {now.validity}")
        if before.owner_key and now.owner_key and before.owner_key != now.owner_key:
            short = now.owner_key[:FINGERPRINT_LETTERS]
            self.events.warning(found, "NameTakenOver", f"cluster name {key} now belongs to key {short}")


def observe_credential(resource: Resource, found: Object, find_credential: FindCredential) -> SeenCredential:
    owner = read_name_owner(found) if resource is MANAGED_CLUSTERS else None
    said = find_credential(found)
    reported = said is not None and said.status == "True" and parse_validity(said.message) is not None
    validity = without_use(said.message) if said is not None and reported else ""
    requested = annotations_of(found).get(Annotation.ROTATION_REQUEST, "")
    return SeenCredential(uid_of(found), validity, owner.key if owner is not None else "", requested)


def credential_events(events: EventRecorder, clusters: FindCredential, addons: FindCredential) -> Iterable[Observer]:
    for resource, find in ((MANAGED_CLUSTERS, clusters), (MANAGED_CLUSTER_ADDONS, addons)):
        yield Observer(resource, CredentialEvents(resource, events, find).observe)


class RequestEvents(Struct, frozen=True):
    """Observes CertificateSigningRequest. After a restart, decisions of the last hour are told again."""

    events: EventRecorder
    clock: Clock

    def observe(self, delta: Delta) -> None:
        if delta.new is None:
            return
        decision = requests.read_decision(delta.new)
        if decision.reason == requests.APPROVED_REASON:
            return  # what the hub approves is told by the reconciler that decides
        if delta.old is None:
            is_new = is_news(decision.decided_at, now=self.clock.now())
        else:
            is_new = decision.verdict != requests.read_decision(delta.old).verdict
        if is_new:
            self._tell(delta.new, decision)

    def _tell(self, csr: Object, decision: requests.RequestDecision) -> None:
        labels, name = labels_of(csr), csr["metadata"]["name"]
        addon = labels.get(Label.ADDON_NAME)
        asking = f"{f'add-on {addon} of ' if addon else ''}cluster {labels.get(Label.CLUSTER_NAME)}"
        said = f"{decision.reason}: {decision.message}"
        if decision.verdict == requests.APPROVED:
            self.events.normal(csr, "CSRApproved", f"request {name} of {asking} was approved ({said})")
        elif decision.verdict == requests.DENIED:
            self.events.normal(csr, "CSRDenied", f"request {name} of {asking} was denied ({said})")


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
    """Observes denied clusters and their rights; a deleted one keeps its rights until its agent has finished."""

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
                self.metrics.revocation.observe(max(0.0, (self.clock.now() - since).total_seconds()))


def revocation_metrics(reader: Reader, metrics: CredentialMetrics, clock: Clock) -> Iterable[Observer]:
    times = RevocationTimes(reader, metrics, clock)
    yield Observer(MANAGED_CLUSTERS, times.observe_cluster)
    for resource in (CLUSTER_ROLES, ROLE_BINDINGS):
        yield Observer(resource, times.observe_right)
