"""The operator on a cluster, which keeps an agent and a hub deployed as a Klusterlet and a ClusterManager say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.simulation.administrator import quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.incidents import Incident, incident
from tests.simulation.network import ProcessRun
from tests.simulation.pillar import Pillar
from tests.simulation.pods import LOOK_EVERY, PodTransport
from tests.simulation.process import RESTART_AFTER
from tests.simulation.settings import DAY, HOUR, MINUTE
from tests.simulation.timing import PATIENCE, follow_options

from watchword.api.conditions import find_condition
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE, Annotation
from watchword.api.pull_secrets import DISABLED, LABEL_PULL_SECRETS
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    NAMESPACES,
)
from watchword.health.processes import EXPECTED
from watchword.kube.client import PatchType
from watchword.operator.bundles import BundleOptions, install_crds, operator_bundle
from watchword.operator.cluster_manager import CLUSTER_MANAGER, hub_manifests, validate_cluster_manager
from watchword.operator.klusterlet import agent_manifests, validate_klusterlet
from watchword.operator.process import OperatorOptions, run_operator
from watchword.operator.rendering import OPERATOR, image_of_operator
from watchword.runtime.diff import Comparison, choose_changes
from watchword.runtime.work_queue import Quarantine

AGENT, HUB = ObjectKey.cluster("klusterlet"), ObjectKey.cluster(CLUSTER_MANAGER)
IMAGES = ("registry.example/watchword:1", "registry.example/watchword:2", "registry.example/watchword:3")
EDITS: tuple[Object, ...] = (
    {"nodePlacement": {"nodeSelector": {"pool": "infra"}}},
    {"nodePlacement": None},
    {"resourceRequirement": {"type": "BestEffort"}},
    {"resourceRequirement": None},
    {"registrationConfiguration": {"featureGates": [{"feature": "Nonsense", "mode": "Enable"}]}},
    {"registrationConfiguration": None},
)
"""What people write into a spec; an unknown feature gate is reported, and the rest is carried out."""

MAGIC = {"authType": "magic"}
INVALID: tuple[Object, ...] = (
    {"deployOption": {"mode": "Hosted"}},
    {"registrationConfiguration": {"registrationDriver": {"authType": "magic"}, "registrationDrivers": [MAGIC]}},
)


@dataclass
class Operator(Pillar):
    """Each cluster has an operator with the rights of its ServiceAccount, one Klusterlet and one ClusterManager."""

    name = "operator"
    at_hub = False
    renewal_writes = (r"/klusterlets/klusterlet/status 200$",)  # says until when the agent's certificate is good
    _deployed: dict[tuple[str, Resource], str] = field(default_factory=dict)  # cluster, kind → UID of its Deployment

    async def start(self) -> None:
        """Apply the published manifests, declare what is wanted, and run the operator and a node."""
        for member in self.members:
            client = member.client()
            await install_crds(client)
            for resource, obj in operator_bundle(BundleOptions(IMAGES[0])):
                if resource is not CUSTOM_RESOURCE_DEFINITIONS:
                    await client.apply(resource, obj, force=True)
            for name in (OPERATOR.namespace, HUB_NAMESPACE):
                patch = {"metadata": {"labels": {LABEL_PULL_SECRETS: DISABLED}}}
                await client.patch(NAMESPACES, ObjectKey.cluster(name), patch)
            for name, program in (("operator", self._run), ("node", self._run_node)):
                self.fleet.add_process(
                    f"{member.name}-{name}",
                    lambda run, member=member, program=program: program(run, member),  # type: ignore[misc]
                    pillar=self.name,
                    cluster=member.name,
                )
        await self.round()

    async def _run(self, run: ProcessRun, member: SimulatedCluster) -> None:
        random = Random(member.random.random())
        client = member.over(PodTransport(member.plane, member.stored, OPERATOR), member.to_cluster, run)
        options = OperatorOptions(
            elect=False, install=False, follow=follow_options(random), quarantine=Quarantine(backoff=PATIENCE)
        )
        await run_operator(client, options, clock=member.clock, random=random)

    async def _run_node(self, _: ProcessRun, member: SimulatedCluster) -> None:
        """Report of every Deployment that as many pods run as it asks for."""
        while True:
            for obj in member.stored.list(DEPLOYMENTS):
                replicas = obj["spec"].get("replicas", 1)
                status = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), replicas)
                status |= {"availableReplicas": replicas, "observedGeneration": obj["metadata"]["generation"]}
                if status.items() - (obj.get("status") or {}).items():
                    patch = {"status": status}
                    await quietly(member.client().patch(DEPLOYMENTS, ObjectKey.of(obj), patch, subresource="status"))
            await asyncio.sleep(LOOK_EVERY)

    async def round(self) -> None:
        """Declare what is wanted, as often as it is gone."""
        for member in self.members:
            for resource, key, spec in (
                (KLUSTERLETS, AGENT, {"clusterName": member.name}),
                (CLUSTER_MANAGERS, HUB, {}),
            ):
                if member.stored.get(resource, key) is None:
                    await quietly(member.client().create(resource, resource.manifest(key, spec=spec)))

    async def step(self) -> None:
        """Compare what is deployed with the specs, and what is reported with both."""
        for member in self.members:
            for resource, found in self._declared(member):
                for what, broken in self._compare(member, resource, found):
                    self.expect(f"{resource.kind}: {what}", broken=broken, cluster=member.name)

    def _declared(self, member: SimulatedCluster) -> Iterator[tuple[Resource, Object]]:
        for resource, key in ((KLUSTERLETS, AGENT), (CLUSTER_MANAGERS, HUB)):
            found = member.stored.get(resource, key)
            if found is not None and not is_deleting(found):
                yield resource, found

    def _compare(self, member: SimulatedCluster, resource: Resource, found: Object) -> Iterator[tuple[str, bool]]:
        """Yield what is promised of an object and its deployment, and whether it is broken now."""
        validate = validate_klusterlet if resource is KLUSTERLETS else validate_cluster_manager
        objection, applied = validate(found), find_condition(found, "Applied")
        is_observed = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
        reason = applied.reason if applied is not None and is_observed else ""
        wanted = self._wanted(member, resource, found)
        if objection is not None:
            yield "an invalid spec is not reported", reason != objection.reason
            before = self._deployed.get((member.name, resource), "")
            uids = {uid_of(obj) for obj in member.stored.list(DEPLOYMENTS)}
            yield "an invalid spec removed what was deployed", bool(before) and before not in uids
            return
        yield "what is deployed is not as the spec says", any(self._differs(member, row) for row in wanted)
        yield "it is not reported as applied", reason != f"{resource.kind}Applied"
        key = next(ObjectKey.of(obj) for kind, obj in wanted if kind is DEPLOYMENTS)
        self._deployed[member.name, resource] = uid_of(member.stored.get(DEPLOYMENTS, key) or {})

    def _wanted(self, member: SimulatedCluster, resource: Resource, found: Object) -> list[Manifest]:
        image = image_of_operator(member.stored.get(DEPLOYMENTS, OPERATOR))
        return agent_manifests(found, image=image) if resource is KLUSTERLETS else hub_manifests(found, image=image)

    def _differs(self, member: SimulatedCluster, row: Manifest) -> bool:
        resource, obj = row
        present = member.stored.get(resource, ObjectKey.of(obj))
        return present is None or choose_changes(present, obj, Comparison.CONTAINS) is not None

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Everything is deployed as declared, runs, and is reported so."""
        for member in self.members:
            found = dict(self._declared(member))
            if len(found) < 2:
                yield f"{member.name}: only {[kind.kind for kind in found]} are declared", member.name
            for resource, obj in found.items():
                for what, broken in self._compare(member, resource, obj):
                    if broken:
                        yield f"{member.name}: {resource.kind}: {what}", member.name
                for type_, status in EXPECTED.items():
                    said = find_condition(obj, type_)
                    if said is not None and said.status != status:
                        yield f"{member.name}: {resource.kind}: {type_} is {said.status}: {said.message}", member.name

    def _choose(self, incident: Incident) -> tuple[Resource, ObjectKey]:
        return incident.choose(((KLUSTERLETS, AGENT), (CLUSTER_MANAGERS, HUB)))  # type: ignore[no-any-return]

    async def _edit(self, incident: Incident, patch: Object) -> None:
        member, (resource, key) = self.fleet.members[incident.target], self._choose(incident)
        await self.admin.insist(lambda: member.client().patch(resource, key, patch))

    @incident(3, MINUTE, DAY)
    async def spec_edited(self, incident: Incident) -> AsyncIterator[None]:
        """A spec is edited several times in a row, and gets back what it had."""
        for edit in EDITS[: 1 + int(incident.amount * 10) % len(EDITS)]:
            await self._edit(incident, {"spec": edit})
            await asyncio.sleep(incident.amount * 4)
        yield
        await self._edit(incident, {"spec": EDITS[1] | EDITS[3] | EDITS[5]})

    @incident(2, MINUTE, DAY)
    async def spec_invalid(self, incident: Incident) -> AsyncIterator[None]:
        """A spec asks for what cannot be carried out, and is mended."""
        await self._edit(incident, {"spec": INVALID[int(incident.amount * 10) % 2]})
        yield
        await self._edit(incident, {"spec": {"deployOption": None, "registrationConfiguration": None}})

    @incident(2, HOUR)
    async def image_changed(self, incident: Incident) -> AsyncIterator[None]:
        """A spec names another image, or the operator is upgraded, which deploys its own image."""
        image = IMAGES[int(incident.amount * 10) % len(IMAGES)]
        await self._edit(incident, {"spec": {"imagePullSpec": image if incident.amount < 0.6 else None}})
        if incident.amount >= 0.3:
            member = self.fleet.members[incident.target]
            patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
            if await quietly(member.client().patch(DEPLOYMENTS, OPERATOR, patch, kind=PatchType.JSON)):
                self.fleet.process(f"{member.name}-operator").kill(restart_after=RESTART_AFTER)
        yield

    @incident(2, MINUTE, DAY)
    async def replicas_changed(self, incident: Incident) -> AsyncIterator[None]:
        """More replicas are asked for, and a Deployment is scaled by hand, also to none."""
        await self._edit(incident, {"metadata": {"annotations": {Annotation.REPLICAS: "3"}}})
        for key in self._deployments():
            patch = {"spec": {"replicas": int(incident.amount * 3)}}
            await quietly(self.fleet.members[incident.target].client().patch(DEPLOYMENTS, key, patch))
        yield
        await self._edit(incident, {"metadata": {"annotations": {Annotation.REPLICAS: None}}})

    def _deployments(self) -> tuple[ObjectKey, ...]:
        return ObjectKey(AGENT_NAMESPACE, f"{AGENT.name}-agent"), ObjectKey(HUB_NAMESPACE, f"{HUB.name}-controller")

    @incident(3, HOUR)
    async def deployed_object_lost(self, incident: Incident) -> AsyncIterator[None]:
        """Something that the operator deployed is deleted."""
        member = self.fleet.members[incident.target]
        rows = [row for kind, found in self._declared(member) for row in self._wanted(member, kind, found)]
        if lost := [row for row in rows if row[0] is not NAMESPACES]:
            resource, obj = incident.choose(lost)
            await quietly(member.client().delete(resource, ObjectKey.of(obj)))
        yield

    @incident(1, MINUTE, DAY, excuses=True)
    async def deployment_withdrawn(self, incident: Incident) -> AsyncIterator[None]:
        """The Klusterlet or the ClusterManager is deleted, and what it deployed with it; it is declared again."""
        member, (resource, key) = self.fleet.members[incident.target], self._choose(incident)
        if resource is KLUSTERLETS:
            member.agent.kill()
        await self.admin.insist(lambda: member.client().delete(resource, key))
        yield
        if resource is KLUSTERLETS:
            member.agent.start()
