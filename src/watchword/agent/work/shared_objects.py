"""Finds the other works that name the same object, and decides which of them says what it holds."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from watchword.agent.work.applied_work_store import AppliedWorkStore, read_applied_resources
from watchword.agent.work.condition_rules import is_work_complete
from watchword.agent.work.manifest_config import Strategy, choose_manifest_config
from watchword.api.meta import Object, ObjectKey, ObjectRef, is_deleting
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.runtime.cache import Cache
from watchword.runtime.reconcile import Reader

OBJECT_INDEX = "object"
WRITING = frozenset({Strategy.UPDATE, Strategy.SERVER_SIDE_APPLY})


def index_by_object(record: Object) -> list[str]:
    """Return one value for each object of a record: the index `OBJECT_INDEX`."""
    return ["/".join(one.identity) for one in read_applied_resources(record)]


class SharedObjects(Struct, frozen=True):
    """Looks into the records of all works on the cluster: of this agent, of others, and of other hubs."""

    records: Cache
    store: AppliedWorkStore
    works: Reader  # on the hub
    cluster_name: str

    def others(self, record: Object, target: ObjectRef) -> list[Object]:
        """Return the other records that name an object, whether it was applied for them or not."""
        keys = self.records.index_keys(APPLIED_MANIFEST_WORKS, OBJECT_INDEX, "/".join(target.identity))
        found = [self.records.get(APPLIED_MANIFEST_WORKS, key) for key in keys if key != ObjectKey.of(record)]
        return [one for one in found if one is not None and not is_deleting(one)]

    def is_kept(self, record: Object, target: ObjectRef) -> bool:
        """Whether an object has been applied for another work, too, so that it stays when this one lets it go."""
        return any(_has_applied(other, target) for other in self.others(record, target))

    def choose_deciding_work(self, record: Object, others: Iterable[Object], target: ObjectRef) -> str:
        """Return the older work that says what an object holds, empty when the work of the record does."""
        rivals = [other for other in others if _has_applied(other, target) and self._is_applying(other, target)]
        first = choose_oldest([record, *rivals])
        if first is record:
            return ""
        name = str(first["spec"].get("manifestWorkName") or "")
        if ObjectKey.of(first) == self.store.key(name):
            return name
        return f"{name} of another hub (AppliedManifestWork {ObjectKey.of(first)})"

    def works_affected_by(self, record: Object) -> list[ObjectKey]:
        """Map a record to its work and to the works with which it shares objects."""
        others = [other for one in read_applied_resources(record) for other in self.others(record, one.target)]
        names = [(one.get("spec") or {}).get("manifestWorkName") for one in (record, *others)]
        return [ObjectKey(self.cluster_name, name) for name in dict.fromkeys(names) if name and isinstance(name, str)]

    def _is_applying(self, record: Object, target: ObjectRef) -> bool:
        """Whether an agent keeps the object as this record's work says."""
        spec, name = record["spec"], str(record["spec"].get("manifestWorkName") or "")
        if spec.get("agentID") != self.store.agent:
            return not (record.get("status") or {}).get("evictionStartTime")
        work = self.works.get(MANIFEST_WORKS, ObjectKey(self.cluster_name, name))
        if work is None or ObjectKey.of(record) != self.store.key(name):  # the record waits for its eviction
            return False
        config = choose_manifest_config(work.get("spec") or {}, target)
        return config.strategy in WRITING and not is_deleting(work) and not is_work_complete(work)


def _has_applied(record: Object, target: ObjectRef) -> bool:
    return any(one.identity == target.identity and one.uid for one in read_applied_resources(record))


def choose_oldest(records: Iterable[Object]) -> Object:
    """Return the record that was created first, of several in one second the first by name."""
    return min(records, key=lambda record: (record["metadata"]["creationTimestamp"], record["metadata"]["name"]))
