"""Reports credentials: Events of what happens to them, and metrics of how long they still live."""

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
    CERTIFICATE_SIGNING_REQUESTS,
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
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, Trigger

FINGERPRINT_LETTERS = 16


class SeenCredential(Struct, frozen=True):
    """What was last seen of a credential; empty for what is not known."""

    uid: str
    validity: str
    owner_key: str
    requested: str  # the last request to renew it


FindCredential: TypeAlias = Callable[[Object], Condition | None]
"""Returns the condition by which a cluster or an add-on reports its credential; None when there is none."""


class CredentialEventReconciler(Struct, frozen=True):
    """Reconciles one kind whose holders report their credential; what is seen first is no news."""

    resource: Resource
    reader: Reader
    events: EventRecorder
    find_credential: FindCredential
    seen: dict[ObjectKey, SeenCredential] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found, before = self.reader.get(self.resource, key), self.seen.pop(key, None)
        now = None if found is None else observe_credential(self.resource, found, self.find_credential)
        if now is not None:
            self.seen[key] = now
        if before is None:
            return Done()
        if found is None or now is None or before.uid != now.uid:
            self._tell_end(key, before)
        else:
            self._tell_change(found, before, now)
        return Done()

    def _tell_end(self, key: ObjectKey, before: SeenCredential) -> None:
        """Tell that an add-on is gone; the end of a cluster is told when nothing is left of it."""
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
            self.events.warning(found, "NameTakenOver", f"the name {key} belongs to the key {short} now")


def observe_credential(resource: Resource, found: Object, find_credential: FindCredential) -> SeenCredential:
    owner = read_name_owner(found) if resource is MANAGED_CLUSTERS else None
    said = find_credential(found)
    reported = said is not None and said.status == "True" and parse_validity(said.message) is not None
    validity = without_use(said.message) if said is not None and reported else ""
    requested = annotations_of(found).get(Annotation.ROTATION_REQUEST, "")
    return SeenCredential(uid_of(found), validity, owner.key if owner is not None else "", requested)


def credential_event_controllers(
    reader: Reader, events: EventRecorder, clusters: FindCredential, addons: FindCredential
) -> Iterable[ControllerSpec]:
    rows = (("cluster-events", MANAGED_CLUSTERS, clusters), ("addon-events", MANAGED_CLUSTER_ADDONS, addons))
    for name, resource, find in rows:
        yield ControllerSpec(name, resource, CredentialEventReconciler(resource, reader, events, find), workers=1)


class RequestEventReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest. After a restart, decisions of the last hour are told again."""

    reader: Reader
    events: EventRecorder
    clock: Clock
    seen: dict[ObjectKey, str] = field(default_factory=dict)  # what was decided when it was last seen

    async def reconcile(self, key: ObjectKey) -> Outcome:
        csr, before = self.reader.get(CERTIFICATE_SIGNING_REQUESTS, key), self.seen.pop(key, None)
        if csr is None:
            return Done()
        decision = requests.read_decision(csr)
        self.seen[key] = decision.verdict
        # What the hub approves is told by the reconciler that decides.
        is_own = decision.reason == requests.APPROVED_REASON
        is_recent = before is not None or is_news(decision.decided_at, now=self.clock.now())
        if decision.verdict != before and not is_own and is_recent:
            self._tell(csr, decision)
        return Done()

    def _tell(self, csr: Object, decision: requests.RequestDecision) -> None:
        labels, name = labels_of(csr), csr["metadata"]["name"]
        addon = labels.get(Label.ADDON_NAME)
        asking = f"{f'add-on {addon} of ' if addon else ''}cluster {labels.get(Label.CLUSTER_NAME)}"
        said = f"{decision.reason}: {decision.message}"
        if decision.verdict == requests.APPROVED:
            self.events.normal(csr, "CSRApproved", f"request {name} of {asking} was approved ({said})")
        elif decision.verdict == requests.DENIED:
            self.events.normal(csr, "CSRDenied", f"request {name} of {asking} was denied ({said})")


def request_event_controller(reader: Reader, events: EventRecorder, clock: Clock) -> ControllerSpec:
    reconciler = RequestEventReconciler(reader, events, clock)
    return ControllerSpec(
        "request-events",
        CERTIFICATE_SIGNING_REQUESTS,
        reconciler,
        workers=1,
        concerns=lambda csr: not requests.is_approved_by_hub(csr),
    )


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
