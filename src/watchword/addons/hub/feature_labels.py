"""Labels each cluster with the state of its add-ons, so that clusters can be selected by what they offer."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import ADDON_FEATURE_LABEL_PREFIX, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader

STATES = {"True": "available", "False": "unhealthy"}
LONGEST = 63  # of the part of a label's key after the slash


class FeatureLabelReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; triggered by it and by its add-ons."""

    reader: Reader
    client: Client

    def concerns(self, cluster: Object) -> bool:
        return bool(self._changes(cluster))

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(MANAGED_CLUSTERS, key)
        if found is None or is_deleting(found):
            return Done()
        changes = self._changes(found)
        if changes:
            await self.client.patch(MANAGED_CLUSTERS, key, with_preconditions(found, {"metadata": {"labels": changes}}))
        return Done()

    def _changes(self, cluster: Object) -> dict[str, str | None]:
        addons = self.reader.list(MANAGED_CLUSTER_ADDONS, namespace=cluster["metadata"]["name"])
        return choose_labels(labels_of(cluster), addons)


def clusters_affected_by(reader: Reader, addon: Object) -> list[ObjectKey]:
    """Map an add-on to its cluster when its label there is outdated: most changes of add-ons do not matter."""
    key = ObjectKey.of(addon)
    cluster = reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace))
    if cluster is None:
        return []
    current = reader.get(MANAGED_CLUSTER_ADDONS, key)
    wanted = availability_state(current) if current is not None else None
    said = labels_of(cluster).get(feature_label(key.name))
    return [ObjectKey.cluster(key.namespace)] if said != wanted else []


def choose_labels(present: Mapping[str, str], addons: Sequence[Object]) -> dict[str, str | None]:
    """Return the labels that have to change; None removes one."""
    wanted = {feature_label(obj["metadata"]["name"]): availability_state(obj) for obj in addons}
    wanted.pop("", None)
    gone = {name: None for name in present if name.startswith(ADDON_FEATURE_LABEL_PREFIX) and name not in wanted}
    return {**gone, **{name: state for name, state in wanted.items() if present.get(name) != state}}


def feature_label(addon: str) -> str:
    """Return the key of an add-on's label, empty when the name is too long for one."""
    label = f"{ADDON_FEATURE_LABEL_PREFIX}{addon}"
    return label if len(label.partition("/")[2]) <= LONGEST else ""


def availability_state(addon: Object) -> str:
    """Return the state as a label value; an add-on without reports counts as unreachable."""
    said = find_condition(addon, ConditionType.ADDON_AVAILABLE)
    return STATES.get(said.status, "unreachable") if said is not None else "unreachable"
