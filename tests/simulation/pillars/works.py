"""ManifestWorks: what they bring to a cluster is there, is corrected, and is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from tests.simulation.administrator import quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.incidents import Incident, incident
from tests.simulation.pillar import Pillar
from tests.simulation.settings import DAY, HOUR, MINUTE

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import APPLIED_MANIFEST_WORKS, CONFIG_MAPS, MANIFEST_WORKS
from watchword.testing.builders import a_config_map

WORKS = ("settings", "settings-too")
WORK_OBJECT = ObjectKey("default", "settings")
"""Both works bring it: it stays until the last of them is gone."""


class Works(Pillar):
    """Every fourth cluster has two works that own one ConfigMap together."""

    name = "works"
    renewal_writes = (r"/manifestworks/[^/]+/status 200$",)

    async def round(self) -> None:
        """Create the works on accepted clusters, as often as they are removed."""
        for member in self.settled_members:
            if self.admin.is_accepted(member.name):
                for work in WORKS:
                    await self._create(member, work)

    async def _create(self, member: SimulatedCluster, work: str) -> None:
        key = ObjectKey(member.name, work)
        if self.fleet.stored.get(MANIFEST_WORKS, key) is None:
            spec = {"workload": {"manifests": [_content(member.name)]}}
            await self.admin.insist(
                lambda: self.admin.client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(key, spec=spec))
            )

    async def step(self) -> None:
        """While a work is wanted, what it brings is on the cluster as it says."""
        for member in self.settled_members:
            wanted = any(self.fleet.stored.get(MANIFEST_WORKS, ObjectKey(member.name, work)) for work in WORKS)
            found = member.stored.get(CONFIG_MAPS, WORK_OBJECT) or {}
            differs = wanted and found.get("data") != {"for": member.name}
            self.expect("what its work brings is not there", broken=differs, cluster=member.name, within=3 * DAY)

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Every work is done, and recorded once."""
        for member in self.members:
            if member.stored.get(CONFIG_MAPS, WORK_OBJECT) is None:
                yield f"{member.name}: its work was not done", member.name
            records = [obj["spec"]["manifestWorkName"] for obj in member.stored.list(APPLIED_MANIFEST_WORKS)]
            if sorted(name for name in records if name in WORKS) != sorted(WORKS):
                yield f"{member.name}: it has records of the works {records}", member.name

    @incident(1, HOUR)
    async def work_object_changed(self, incident: Incident) -> AsyncIterator[None]:
        """What the work brought is changed or deleted on the cluster."""
        client = self.fleet.members[incident.target].client()
        if incident.amount < 0.5:
            await quietly(client.delete(CONFIG_MAPS, WORK_OBJECT))
        else:
            await quietly(client.patch(CONFIG_MAPS, WORK_OBJECT, {"data": {"for": "another"}}))
        yield

    @incident(1, MINUTE, DAY)
    async def work_removed(self, incident: Incident) -> AsyncIterator[None]:
        """One of the two owners of the ConfigMap is removed, and comes back."""
        await quietly(self.admin.client.delete(MANIFEST_WORKS, ObjectKey(incident.target, incident.choose(WORKS))))
        yield


def _content(cluster: str) -> Object:
    content = a_config_map(WORK_OBJECT.name, namespace=WORK_OBJECT.namespace, data={"for": cluster})
    return {**content, "apiVersion": "v1", "kind": CONFIG_MAPS.kind}
