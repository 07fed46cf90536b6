"""Enables an add-on on every cluster of the sets it is meant for, and ties each instance to its kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, owner_reference, uid_of
from watchword.api.names import Annotation
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
)
from watchword.hub.addons.token_infrastructure import is_accepted
from watchword.hub.cluster_sets import is_member
from watchword.kube.client import Client
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader

CLUSTER_SETS = "ClusterSets"


class Step(Enum):
    """What is to be done about one add-on on one cluster."""

    NOTHING = auto()
    ENABLE = auto()
    TIE = auto()  # enabled by hand: its kind becomes its owner, so that it goes with it
    DISABLE = auto()


def choose_step(known: Object | None, cluster: Object | None, sets: Sequence[Object], present: Object | None) -> Step:
    """Decide from the add-on's kind, the cluster, the sets named, and what is there."""
    if known is None or is_deleting(known):
        return Step.NOTHING  # the garbage collector removes what belonged to it
    strategy: dict[str, Any] = (known.get("spec") or {}).get("installStrategy") or {}
    by_sets = strategy.get("type") == CLUSTER_SETS
    alive = cluster is not None and not is_deleting(cluster)
    wanted = by_sets and alive and cluster is not None and is_accepted(cluster) and is_in(sets, cluster)
    if present is None:
        return Step.ENABLE if wanted else Step.NOTHING
    if is_deleting(present):
        return Step.NOTHING
    if by_sets and not wanted and annotations_of(present).get(Annotation.ADDON_INSTALLED_BY) == CLUSTER_SETS:
        return Step.DISABLE
    owners = present["metadata"].get("ownerReferences") or []
    return Step.NOTHING if any(owner.get("uid") == uid_of(known) for owner in owners) else Step.TIE


def is_in(sets: Sequence[Object], cluster: Object) -> bool:
    """Whether a cluster belongs to one of the sets."""
    return any(is_member(found, labels_of(cluster)) for found in sets)


@dataclass(frozen=True)
class AddonInstallationReconciler:
    """Reconciles ManagedClusterAddOn, also one that does not exist yet; woken by kinds, clusters and sets."""

    reader: Reader
    client: Client

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take the one step that is due, if any."""
        known = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(key.name))
        present = self.reader.get(MANAGED_CLUSTER_ADDONS, key)
        match self.step(key):
            case Step.ENABLE if known is not None:
                await self.client.create(MANAGED_CLUSTER_ADDONS, instance_manifest(known, key))
            case Step.TIE if known is not None and present is not None:
                owners = [*(present["metadata"].get("ownerReferences") or []), owner_reference(known)]
                patch = with_preconditions(present, {"metadata": {"ownerReferences": owners}})
                await self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch)
            case Step.DISABLE if present is not None:
                await self.client.delete(MANAGED_CLUSTER_ADDONS, key, uid=uid_of(present))
            case _:
                pass
        return Done()

    def step(self, key: ObjectKey) -> Step:
        """Return what is due for one add-on on one cluster."""
        known = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(key.name))
        cluster = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace))
        return choose_step(known, cluster, self._sets(known), self.reader.get(MANAGED_CLUSTER_ADDONS, key))

    def _sets(self, known: Object | None) -> list[Object]:
        rows = (((known or {}).get("spec") or {}).get("installStrategy") or {}).get("clusterSets") or ()
        found = (self.reader.get(MANAGED_CLUSTER_SETS, ObjectKey.cluster(str(row.get("name")))) for row in rows)
        return [obj for obj in found if obj is not None]

    def by_cluster(self, cluster: Object) -> list[ObjectKey]:
        """Map a cluster to the add-ons for which something is due on it: most news about clusters mean nothing."""
        name = cluster["metadata"]["name"]
        return self._due(ObjectKey(name, known["metadata"]["name"]) for known in self._by_sets())

    def by_kind(self, known: Object) -> list[ObjectKey]:
        """Map an add-on's kind to the clusters on which something is due."""
        name = known["metadata"]["name"]
        return self._due(ObjectKey(obj["metadata"]["name"], name) for obj in self.reader.list(MANAGED_CLUSTERS))

    def by_set(self, _: Object) -> list[ObjectKey]:
        """Map a change of a set to everything that is due: sets change rarely, and may select anything."""
        return [key for known in self._by_sets() for key in self.by_kind(known)]

    def _by_sets(self) -> Iterable[Object]:
        for known in self.reader.list(CLUSTER_MANAGEMENT_ADDONS):
            if ((known.get("spec") or {}).get("installStrategy") or {}).get("type") == CLUSTER_SETS:
                yield known

    def _due(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        return [key for key in keys if self.step(key) is not Step.NOTHING]


def instance_manifest(known: Object, key: ObjectKey) -> Object:
    """Return an add-on enabled on one cluster, which goes with its kind."""
    metadata: Object = {
        "ownerReferences": [owner_reference(known)],
        "annotations": {Annotation.ADDON_INSTALLED_BY: CLUSTER_SETS},
    }
    return MANAGED_CLUSTER_ADDONS.manifest(key, metadata=metadata, spec={})
