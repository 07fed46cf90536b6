"""Tells people as Events what happens to credentials: a rotation, and a name that passed to another key."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from watchword.api.addon import Addon
from watchword.api.conditions import Condition
from watchword.api.credential_use import without_use
from watchword.api.credential_validity import parse_validity
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.certificates.name_ownership import read_name_owner
from watchword.drivers.catalog import Catalog
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader

FINGERPRINT_LETTERS = 16


class SeenCredential(Struct, frozen=True):
    """What was last seen of a credential; empty for what is not known."""

    uid: str
    validity: str
    owner_key: str


class CredentialEventReconciler(Struct, frozen=True):
    """Reconciles one kind whose holders report their credential; what is seen first is no news."""

    resource: Resource
    reader: Reader
    events: EventRecorder
    catalog: Catalog
    seen: dict[ObjectKey, SeenCredential] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Compare what is said of the credential with what was said before."""
        found = self.reader.get(self.resource, key)
        if found is None:
            self.seen.pop(key, None)
            return Done()
        now, before = observe_credential(self.resource, found, self.catalog), self.seen.get(key)
        self.seen[key] = now
        if before is None or before.uid != now.uid:
            return Done()
        if now.validity and not before.validity:
            self.events.audit(found, "CredentialIssued", f"the first credential of {key} was issued: {now.validity}")
        elif now.validity and before.validity != now.validity:
            self.events.normal(found, "CredentialRotated", f"the credential of {key} was renewed: {now.validity}")
        if before.owner_key and now.owner_key and before.owner_key != now.owner_key:
            short = now.owner_key[:FINGERPRINT_LETTERS]
            self.events.warning(found, "NameTakenOver", f"the name {key} belongs to the key {short} now")
        return Done()


def observe_credential(resource: Resource, found: Object, catalog: Catalog) -> SeenCredential:
    """Return what an object says of its holder's credential."""
    owner = read_name_owner(found) if resource is MANAGED_CLUSTERS else None
    said = _condition(resource, found, catalog)
    reported = said is not None and said.status == "True" and parse_validity(said.message) is not None
    validity = without_use(said.message) if said is not None and reported else ""
    return SeenCredential(uid_of(found), validity, owner.key if owner is not None else "")


def _condition(resource: Resource, found: Object, catalog: Catalog) -> Condition | None:
    if resource is MANAGED_CLUSTERS:
        return catalog.cluster_credential(found)
    return catalog.addon_credential(Addon.read(found))


def credential_event_controllers(reader: Reader, events: EventRecorder, catalog: Catalog) -> Iterable[ControllerSpec]:
    """Return one controller for each kind."""
    for name, resource in (("cluster-events", MANAGED_CLUSTERS), ("addon-events", MANAGED_CLUSTER_ADDONS)):
        yield ControllerSpec(name, resource, CredentialEventReconciler(resource, reader, events, catalog), workers=1)
