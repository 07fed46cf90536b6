"""Creates cluster sets, moves clusters between them, and binds them to namespaces."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from watchword.admin.errors import NotFoundOnHub, OperationRefused
from watchword.admin.lookup import get_named
from watchword.api.cluster import is_member
from watchword.api.meta import Object, ObjectKey, Resource, labels_of, mapping_at, uid_of
from watchword.api.names import Label
from watchword.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from watchword.health.hub_reader import require_hub
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.registration.hub.cluster_sets import DEFAULT_SET

EXCLUSIVE = "ExclusiveClusterSetLabel"
SPEC: Mapping[str, Object] = {"clusterSelector": {"selectorType": EXCLUSIVE}}


class ClusterSetRow(Struct, frozen=True):
    """One set, the clusters in it, and the namespaces that may use it."""

    found: Object
    clusters: Sequence[str]
    namespaces: Sequence[str]


class ClusterSetAdmin(Struct, frozen=True):
    """Operations on the cluster sets of a hub; each returns whether anything changed."""

    client: Client
    dry_run: bool = False

    async def rows(self, selector: str = "") -> list[ClusterSetRow]:
        await require_hub(self.client)
        sets = (await self.client.list(MANAGED_CLUSTER_SETS, labels=selector)).items
        clusters = (await self.client.list(MANAGED_CLUSTERS)).items
        bindings = [ObjectKey.of(obj) for obj in (await self.client.list(MANAGED_CLUSTER_SET_BINDINGS)).items]
        return [
            ClusterSetRow(
                found,
                sorted(obj["metadata"]["name"] for obj in clusters if is_member(found, labels_of(obj))),
                sorted(key.namespace for key in bindings if key.name == found["metadata"]["name"]),
            )
            for found in sets
        ]

    async def create(self, name: str) -> bool:
        wanted = MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(name), spec=dict(SPEC))
        return await self._create(MANAGED_CLUSTER_SETS, wanted)

    async def delete(self, name: str) -> None:
        """Delete an empty set; `OperationRefused` while clusters are in it."""
        found = await get_named(self.client, MANAGED_CLUSTER_SETS, ObjectKey.cluster(name))
        members = [row.clusters for row in await self.rows() if row.found["metadata"]["name"] == name]
        if members and members[0]:
            advice = (
                f"remove them with `watchword clusterset remove {name} {members[0][0]}`, or add them to another set"
            )
            if _selects_by_labels(found):
                advice = "it selects them by labels: label them otherwise, or change its clusterSelector"
            raise OperationRefused(f"cluster set {name} has clusters ({', '.join(members[0][:3])}): {advice}")
        if not self.dry_run:
            await self.client.delete(MANAGED_CLUSTER_SETS, ObjectKey.of(found), uid=uid_of(found))

    async def add(self, name: str, cluster: str) -> bool:
        """Put a cluster into a set, and so out of the one in which it was."""
        found = await get_named(self.client, MANAGED_CLUSTER_SETS, ObjectKey.cluster(name))
        if _selects_by_labels(found):
            raise OperationRefused(f"cluster set {name} selects clusters by labels: label the cluster instead")
        return await self._label(cluster, name)

    async def remove(self, name: str, cluster: str) -> bool:
        """Take a cluster out of a set: the hub puts it into the set `default`."""
        if name == DEFAULT_SET:
            raise OperationRefused(f"every cluster is in a set: `watchword clusterset add SET {cluster}` changes it")
        current = await get_named(self.client, MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
        if labels_of(current).get(Label.CLUSTER_SET) != name:
            raise NotFoundOnHub(f"cluster {cluster} is not in cluster set {name}: `watchword clusters` shows its set")
        return await self._label(cluster, None)

    async def bind(self, name: str, namespace: str) -> bool:
        await get_named(self.client, MANAGED_CLUSTER_SETS, ObjectKey.cluster(name))
        key = ObjectKey(namespace, name)
        try:
            wanted = MANAGED_CLUSTER_SET_BINDINGS.manifest(key, spec={"clusterSet": name})
            return await self._create(MANAGED_CLUSTER_SET_BINDINGS, wanted)
        except NotFound as cause:
            raise NotFoundOnHub(f"there is no namespace {namespace}: `kubectl create namespace {namespace}`") from cause

    async def unbind(self, name: str, namespace: str) -> bool:
        key = ObjectKey(namespace, name)
        found = await self.client.find(MANAGED_CLUSTER_SET_BINDINGS, key)
        if found is not None and not self.dry_run:
            await self.client.delete(MANAGED_CLUSTER_SET_BINDINGS, key, uid=uid_of(found))
        return found is not None

    async def _create(self, resource: Resource, wanted: Object) -> bool:
        try:
            await self.client.create(resource, wanted, dry_run=self.dry_run)
        except AlreadyExists:
            return False
        except NotFound:
            await require_hub(self.client)
            raise
        return True

    async def _label(self, cluster: str, value: str | None) -> bool:
        key = ObjectKey.cluster(cluster)
        current = await get_named(self.client, MANAGED_CLUSTERS, key)
        if labels_of(current).get(Label.CLUSTER_SET) == value:
            return False
        patch = {"metadata": {"labels": {Label.CLUSTER_SET: value}}}
        await self.client.patch(MANAGED_CLUSTERS, key, patch, dry_run=self.dry_run)
        return True


def _selects_by_labels(found: Object) -> bool:
    return bool(mapping_at(found, "spec", "clusterSelector").get("selectorType", EXCLUSIVE) != EXCLUSIVE)
