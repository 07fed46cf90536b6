"""Enables an add-on on every cluster that its strategy chooses, and ties each instance to its kind."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct

from watchword.api.cluster import is_accepted
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, owner_reference, uid_of
from watchword.api.names import Annotation
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.hub.addons.install_strategy import CLUSTER_SETS, PLACEMENTS, InstallStrategies, is_automatic, strategy_of
from watchword.hub.addons.placements import clusters_of, placement_key, placement_of
from watchword.kube.client import Client
from watchword.runtime.cache import Cache
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome


class InstallationStep(Enum):
    """What is to be done about one add-on on one cluster."""

    NOTHING = auto()
    ENABLE = auto()
    ADOPT = auto()  # enabled manually: its kind becomes its owner, so that it is deleted with it
    DISABLE = auto()


def choose_installation_step(
    known: Object, cluster: Object | None, present: Object | None, *, selected: bool | None
) -> InstallationStep:
    """Decide from the add-on's kind, the cluster, what exists, and whether the strategy chooses the cluster.

    Where the strategy does not decide, administrators do. What an administrator enabled is not removed.
    """
    if is_deleting(known):
        return InstallationStep.NOTHING  # the garbage collector removes what belonged to it
    wanted = selected and cluster is not None and not is_deleting(cluster) and is_accepted(cluster)
    if present is None:
        return (
            InstallationStep.ENABLE
            if wanted and cluster is not None and not is_opted_out(cluster)
            else InstallationStep.NOTHING
        )
    if is_deleting(present):
        return InstallationStep.NOTHING
    if selected is not None and not wanted and Annotation.ADDON_INSTALLED_BY in annotations_of(present):
        return InstallationStep.DISABLE
    owners = present["metadata"].get("ownerReferences") or []
    return (
        InstallationStep.NOTHING
        if any(owner.get("uid") == uid_of(known) for owner in owners)
        else InstallationStep.ADOPT
    )


def is_opted_out(cluster: Object) -> bool:
    """Whether a cluster gets only the add-ons that an administrator enables on it."""
    return annotations_of(cluster).get(Annotation.DISABLE_AUTOMATIC_INSTALLATION, "").lower() == "true"


class AddonInstallationReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn, existing or not; triggered by kinds, clusters, sets, decisions."""

    reader: Cache
    client: Client
    strategies: InstallStrategies

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take the one step that is due, if any."""
        known = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(key.name))
        if known is None:
            return Done()
        present = self.reader.get(MANAGED_CLUSTER_ADDONS, key)
        match self._step(known, key, present):
            case InstallationStep.ENABLE:
                await self.client.create(MANAGED_CLUSTER_ADDONS, instance_manifest(known, key))
            case InstallationStep.ADOPT if present is not None:
                owners = [*(present["metadata"].get("ownerReferences") or []), owner_reference(known)]
                patch = with_preconditions(present, {"metadata": {"ownerReferences": owners}})
                await self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch)
            case InstallationStep.DISABLE if present is not None:
                await self.client.delete(MANAGED_CLUSTER_ADDONS, key, uid=uid_of(present))
            case _:
                pass
        return Done()

    def _step(self, known: Object, key: ObjectKey, present: Object | None) -> InstallationStep:
        needed = is_automatic(known)  # else neither the cluster nor its labels decide anything
        cluster = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) if needed else None
        selected = self.strategies.selects(known, cluster, key.namespace)
        return choose_installation_step(known, cluster, present, selected=selected)

    def by_cluster(self, cluster: Object) -> list[ObjectKey]:
        """Map a cluster to the add-ons that must change on it: most changes of clusters do not matter."""
        name = cluster["metadata"]["name"]
        return [key for known in self.strategies.automatic() for key in self._due(known, [name])]

    def by_kind(self, known: Object) -> list[ObjectKey]:
        """Map an add-on's kind to the clusters on which something is due."""
        current = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.of(known))  # not as it was before the change
        return [] if current is None else self._due(current, [key.name for key in self.reader.keys(MANAGED_CLUSTERS)])

    def by_set(self, _: Object) -> list[ObjectKey]:
        """Map a change of a set to everything that is due: sets change rarely, and may select anything."""
        return [key for known in self.strategies.automatic(CLUSTER_SETS) for key in self.by_kind(known)]

    def by_decision(self, decision: Object) -> list[ObjectKey]:
        """Map a decision to what is due on its clusters, for the kinds that name its placement."""
        named = placement_of(decision)
        kinds = [known for known in self.strategies.automatic(PLACEMENTS) if named in _placements(known)]
        return [key for known in kinds for key in self._due(known, clusters_of(decision))]

    def by_placements(self) -> list[ObjectKey]:
        """Return everything that is due once all decisions are known."""
        return [key for known in self.strategies.automatic(PLACEMENTS) for key in self.by_kind(known)]

    def _due(self, known: Object, clusters: Iterable[str]) -> list[ObjectKey]:
        keys = [ObjectKey(name, known["metadata"]["name"]) for name in clusters]
        here = self.reader.get
        return [
            key
            for key in keys
            if self._step(known, key, here(MANAGED_CLUSTER_ADDONS, key)) is not InstallationStep.NOTHING
        ]


def _placements(known: Object) -> set[str]:
    return {placement_key(row) for row in strategy_of(known).get("placements") or ()}


def instance_manifest(known: Object, key: ObjectKey) -> Object:
    """Return an add-on enabled on one cluster, owned by its kind."""
    metadata: Object = {
        "ownerReferences": [owner_reference(known)],
        "annotations": {Annotation.ADDON_INSTALLED_BY: str(strategy_of(known).get("type"))},
    }
    return MANAGED_CLUSTER_ADDONS.manifest(key, metadata=metadata, spec={})
