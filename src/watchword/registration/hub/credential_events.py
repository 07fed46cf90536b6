"""Tells as Events what happens to credentials: issued, renewed on request or in time, passed on, ended."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct, field

from watchword.api.conditions import Condition
from watchword.api.credential_report import parse_validity, without_use
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, labels_of, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader

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
