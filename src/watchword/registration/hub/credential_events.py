"""Tells as Events what happens to credentials: issued, renewed on request or in time, passed on, ended."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from watchword.api.conditions import Condition
from watchword.api.credential_report import parse_validity, without_use
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, labels_of, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.credentials.certificates import approval
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import Observer

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
        decision = approval.read_decision(delta.new)
        if decision.reason == approval.APPROVED_REASON:
            return  # what the hub approves is told by the reconciler that decides
        if delta.old is None:
            is_new = is_news(decision.decided_at, now=self.clock.now())
        else:
            is_new = decision.verdict != approval.read_decision(delta.old).verdict
        if is_new:
            self._tell(delta.new, decision)

    def _tell(self, csr: Object, decision: approval.RequestDecision) -> None:
        labels, name = labels_of(csr), csr["metadata"]["name"]
        addon = labels.get(Label.ADDON_NAME)
        asking = f"{f'add-on {addon} of ' if addon else ''}cluster {labels.get(Label.CLUSTER_NAME)}"
        said = f"{decision.reason}: {decision.message}"
        if decision.verdict == approval.APPROVED:
            self.events.normal(csr, "CSRApproved", f"request {name} of {asking} was approved ({said})")
        elif decision.verdict == approval.DENIED:
            self.events.normal(csr, "CSRDenied", f"request {name} of {asking} was denied ({said})")
