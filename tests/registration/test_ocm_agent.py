"""Our hub serves every request that Open Cluster Management's agent sends, from joining to add-on tokens."""

from __future__ import annotations

import base64
import contextlib
from dataclasses import dataclass, field

from tests.helpers.fleet import AUTOMATIC, BOOTSTRAP_USER, FleetHarness, transport_with

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.conditions import find_condition
from watchword.api.meta import ObjectKey
from watchword.api.names import CLUSTER_LEASE, MANAGED_CLUSTERS_GROUP, ConditionType, Label, agent_user, cluster_group
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from watchword.api.time import rfc3339_micro
from watchword.kube.client import Client
from watchword.kube.errors import Conflict
from watchword.kube.tokens import request_token
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.runtime.ensure import with_preconditions
from watchword.testing.builders import an_addon
from watchword.testing.eventually import eventually

YEAR = 31_536_000  # seconds: what Open Cluster Management's agent requests
USAGES = ["digital signature", "key encipherment", "client auth"]
READY = ConditionType.TOKEN_INFRASTRUCTURE_READY


@dataclass
class OcmAgent:
    """Sends what a shipped agent sends: generated names, leases as a whole, lists in patches of one version."""

    fleet: FleetHarness
    name: str
    key: PrivateKey = field(default_factory=PrivateKey.generate)

    async def ask(self, hub: Client) -> bytes:
        """Request a certificate and wait until it is issued."""
        user = agent_user(self.name, "x7k2m")
        subject = CertificateSubject(user, (cluster_group(self.name), MANAGED_CLUSTERS_GROUP))
        labels = {Label.CLUSTER_NAME: self.name}
        request = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": f"{self.name}-", "labels": labels},
            "spec": {
                "request": base64.b64encode(build_csr(self.key, subject, AlternativeNames())).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": USAGES,
                "expirationSeconds": 3600,
            },
        }
        made = await hub.create(CERTIFICATE_SIGNING_REQUESTS, request)
        issued = await eventually(
            self.fleet.client,
            CERTIFICATE_SIGNING_REQUESTS,
            ObjectKey.of(made),
            lambda obj: bool(((obj or {}).get("status") or {}).get("certificate")),
        )
        return base64.b64decode(issued["status"]["certificate"])

    async def join(self) -> Client:
        """Register the cluster with the bootstrap credential; returns the agent under its own identity."""
        joining = self.fleet.plane.client(BOOTSTRAP_USER, (MANAGED_CLUSTER_GROUP,))
        key = ObjectKey.cluster(self.name)
        assert await joining.find(MANAGED_CLUSTERS, key) is None
        spec = {"hubAcceptsClient": False, "leaseDurationSeconds": 60}
        await joining.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(key, spec=spec))
        certificate = await self.ask(joining)
        await self.fleet.condition(self.name, ConditionType.HUB_ACCEPTED, "True")
        return self.fleet.plane.adopt(Client(transport_with(self.fleet.plane, certificate, self.key.pem.reveal())))

    async def say(self, own: Client, type_: str, reason: str) -> None:
        """Write one condition of the ManagedCluster, the whole list at once; again after a conflict."""
        row = {"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": _now(self.fleet)}
        for _ in range(10):
            (cluster,) = (await own.list(MANAGED_CLUSTERS, fields=f"metadata.name={self.name}")).items
            conditions = [*((cluster.get("status") or {}).get("conditions") or []), row]
            patch = with_preconditions(cluster, {"status": {"conditions": conditions}})
            with contextlib.suppress(Conflict):
                await own.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), patch, subresource="status")
                return

    async def register(self, own: Client, key: ObjectKey, **client: object) -> None:
        """Write driver or subject of an add-on's first registration."""
        for _ in range(10):
            addon = await own.get(MANAGED_CLUSTER_ADDONS, key)
            before = addon["status"]["registrations"][0].get("kubeClient") or {}
            rows = [{"type": "kubeClient", "kubeClient": {**before, **client}}]
            patch = with_preconditions(addon, {"status": {"registrations": rows}})
            with contextlib.suppress(Conflict):
                await own.patch(MANAGED_CLUSTER_ADDONS, key, patch, subresource="status")
                return


def _now(fleet: FleetHarness) -> str:
    return fleet.plane.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_it_joins_reports_and_renews(fleet: FleetHarness) -> None:
    fleet.start_hub(AUTOMATIC)
    agent = OcmAgent(fleet, fleet.name())
    own = await agent.join()

    lease = await own.get(LEASES, ObjectKey(agent.name, CLUSTER_LEASE))
    renewed = {**lease["spec"], "renewTime": rfc3339_micro(fleet.plane.clock.now())}
    await own.update(LEASES, {**lease, "spec": renewed})
    await agent.say(own, ConditionType.JOINED, "ManagedClusterJoined")
    await agent.say(own, ConditionType.AVAILABLE, "ManagedClusterAvailable")
    assert (await own.list(MANIFEST_WORKS, namespace=agent.name)).items == []

    await fleet.condition(agent.name, ConditionType.CLOCK_SYNCED, "True")
    assert await agent.ask(own)  # renewed under its own identity, without an administrator


async def test_its_add_ons_get_tokens_under_its_name_for_their_account(fleet: FleetHarness) -> None:
    fleet.start_hub(AUTOMATIC, [hub_addon_controllers])
    agent = OcmAgent(fleet, fleet.name())
    own = await agent.join()
    addon = await fleet.client.create(MANAGED_CLUSTER_ADDONS, an_addon("reporter", cluster=agent.name))
    key, wanted = ObjectKey.of(addon), {"status": {"registrations": [{"type": "kubeClient"}]}}
    await fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, wanted, subresource="status")

    await agent.register(own, key, driver="token")
    await agent.register(own, key, subject={"user": f"system:serviceaccount:{agent.name}:reporter-agent"})
    ready = await eventually(
        fleet.client, MANAGED_CLUSTER_ADDONS, key, lambda obj: find_condition(obj or {}, READY) is not None
    )
    account = ObjectKey(agent.name, "reporter-agent")
    token = await request_token(own, account, expiration_seconds=YEAR)

    said = find_condition(ready, READY)
    assert said is not None
    assert said.message.startswith(f"ServiceAccount {account} (UID: ")
    assert token.expires_at > fleet.plane.clock.now()
