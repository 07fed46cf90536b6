"""Open Cluster Management before Watchword and in its place: what its controllers write is taken over."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.simulation.administrator import note_deed, quietly
from tests.simulation.cluster import SECRET, SimulatedCluster
from tests.simulation.held_credentials import ADDON, ADDON_SECRET, addon_credential
from tests.simulation.incidents import Incident, incident
from tests.simulation.pillar import Pillar
from tests.simulation.planes import SeededKeys
from tests.simulation.settings import DAY, HOUR, MINUTE

from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of
from watchword.api.names import (
    CLUSTER_LEASE,
    MANAGED_CLUSTERS_GROUP,
    Finalizer,
    Label,
    addon_group,
    addon_service_account,
    agent_user,
    cluster_group,
    cluster_role,
    registration_binding,
    work_binding,
)
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.kube.tokens import request_token
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject, Usage
from watchword.testing.builders import a_cluster

RBAC = "rbac.authorization.k8s.io"
ISSUED_WITHIN = 600.0  # seconds that its agent waits for a certificate before it is replaced again
USAGES = (Usage.DIGITAL_SIGNATURE, Usage.KEY_ENCIPHERMENT, Usage.CLIENT_AUTH)
TOKEN_SECONDS = 365 * 86400


@dataclass
class Ocm(Pillar):
    """Clusters that register by certificate joined a hub of Open Cluster Management, and may return to it."""

    name = "ocm"
    _keys: SeededKeys = field(default_factory=lambda: SeededKeys(Random("ocm")))

    async def start(self) -> None:
        """Let every other cluster be one that joined before: its objects are there when ours start."""
        for member in self.members[::2]:
            await self._write_hub_objects(member)
            authority, key = self.fleet.hub.authority, self._keys()
            subject = _subject(member.name)
            life = member.profile.certificate_lifetime
            issued = authority.issue_client(key.public, subject, now=self.fleet.now, lifetime=life)
            await self._store(member, SECRET, self._credential(member, key, issued.pem))

    @incident(3, MINUTE, DAY, excuses=True)
    async def ocm_agent_in_charge(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster's agent is replaced by that of Open Cluster Management, which renews, and back."""
        member = self.fleet.members[incident.target]
        member.agent.kill()
        client = member.as_itself()
        note_deed(done=client is not None)
        if client is not None:
            await self._renew_as_agent(member, client)
            await client.close()
        yield
        member.agent.start()

    @incident(2, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def ocm_hub_in_charge(self, _: Incident) -> AsyncIterator[None]:
        """The hub's controllers are replaced by those of Open Cluster Management, and back."""
        for process in self.fleet.team.processes:
            process.kill()
        for member in self.settled_members:
            if self.admin.is_accepted(member.name):
                await self._write_hub_objects(member)
        yield
        self.fleet.team.start()

    async def _renew_as_agent(self, member: SimulatedCluster, client: Client) -> None:
        """Do what its agent does in its first minutes: report, renew the lease and every credential."""
        name, now = member.name, self.fleet.now
        lease = {"spec": {"renewTime": rfc3339_micro(now), "leaseDurationSeconds": 60, "holderIdentity": None}}
        await quietly(client.patch(LEASES, ObjectKey(name, CLUSTER_LEASE), lease))
        labels = {Label.CLUSTER_NAME: name}
        spec = CertificateSpec(_subject(name), name=f"{name}-{self._suffix()}", usages=USAGES, labels=labels)
        await self._renew_certificate(member, client, spec, SECRET)
        rotated = _condition("ClusterCertificateRotated", "ClientCertificateUpdated", rfc3339(now))
        await quietly(
            client.patch(
                MANAGED_CLUSTERS,
                ObjectKey.cluster(name),
                {
                    "status": {
                        "conditions": [
                            *_conditions(self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)), rotated),
                            rotated,
                        ]
                    }
                },
                subresource="status",
            )
        )
        if addon_credential(member) is None:
            return
        if member.profile.addon == "token":
            await self._renew_token(member, client)
        else:
            subject = CertificateSubject(f"{addon_group(name, ADDON)}:agent:{ADDON}", (addon_group(name, ADDON),))
            names = AlternativeNames((f"{ADDON}.addon.open-cluster-management.io",))
            labels |= {Label.ADDON_NAME: ADDON}
            spec = CertificateSpec(
                subject, name=f"addon-{name}-{ADDON}-{self._suffix()}", usages=USAGES, names=names, labels=labels
            )
            await self._renew_certificate(member, client, spec, ADDON_SECRET)

    async def _renew_certificate(
        self, member: SimulatedCluster, client: Client, spec: CertificateSpec, secret: ObjectKey
    ) -> None:
        key = self._keys()
        if not await quietly(client.create(CERTIFICATE_SIGNING_REQUESTS, certificate_request_manifest(spec, key))):
            return
        deadline = asyncio.get_running_loop().time() + ISSUED_WITHIN
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(5)
            csr = self.fleet.stored.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(spec.name)) or {}
            issued = (csr.get("status") or {}).get("certificate")
            if issued:
                await self._store(member, secret, self._credential(member, key, base64.b64decode(issued)))
                return

    async def _renew_token(self, member: SimulatedCluster, client: Client) -> None:
        account = ObjectKey(member.name, addon_service_account(member.name, ADDON))
        try:
            issued = await request_token(client, account, expiration_seconds=TOKEN_SECONDS)
        except KubeError:
            return
        user = UserEntry(token_file=Path("token"))
        data = {"kubeconfig": self._kubeconfig(user), "cluster-name": member.name.encode()}
        await self._store(member, ADDON_SECRET, {**data, "token": issued.token.reveal().encode()})

    def _credential(self, member: SimulatedCluster, key: PrivateKey, chain: bytes) -> Mapping[str, bytes]:
        user = UserEntry(certificate_file=Path("tls.crt"), key_file=Path("tls.key"))
        data = {"kubeconfig": self._kubeconfig(user), "cluster-name": member.name.encode(), "agent-name": b"agent"}
        return {**data, "tls.crt": chain, "tls.key": key.pem.reveal()}

    def _kubeconfig(self, user: UserEntry) -> bytes:
        hub = ClusterEntry(self.fleet.hub.server, ca_data=self.fleet.hub.ca_pem)
        context = ContextEntry("hub", "default-auth", "configuration")
        return dump_kubeconfig(
            Kubeconfig({"hub": hub}, {"default-auth": user}, {"default-context": context}, "default-context")
        )

    async def _store(self, member: SimulatedCluster, key: ObjectKey, data: Mapping[str, bytes]) -> None:
        """Write a Secret as its agent does: other keys stay, and an add-on's has no name of an agent."""
        rows = {name: base64.b64encode(value).decode() for name, value in data.items()}
        if key == ADDON_SECRET:
            rows.pop("agent-name", None)
        client = member.client()
        if not await quietly(client.patch(SECRETS, key, {"data": rows})):
            await quietly(client.create(SECRETS, SECRETS.manifest(key, data=rows)))

    async def _write_hub_objects(self, member: SimulatedCluster) -> None:
        """Write what its hub writes for a cluster that is accepted."""
        name, client = member.name, self.admin.client
        cluster = a_cluster(name, accepted=True, lease_seconds=60)
        await quietly(client.create(MANAGED_CLUSTERS, cluster))
        found = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        finalizers = [Finalizer.CLUSTER_ACCESS, Finalizer.CLUSTER_CONTENT]
        kept = [each for each in finalizers_of(found or {}) if each not in finalizers]
        labels = {f"feature.open-cluster-management.io/addon-{ADDON}": "available"}
        patch = {"metadata": {"finalizers": [*kept, *finalizers], "labels": labels}, "spec": {"hubAcceptsClient": True}}
        await quietly(client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch))
        said = _condition("HubAcceptedManagedCluster", "HubClusterAdminAccepted", rfc3339(self.fleet.now))
        status = {"status": {"conditions": [*_conditions(found, said), said]}}
        await quietly(client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), status, subresource="status"))
        for resource, obj in _cluster_objects(name):
            if not await quietly(client.create(resource, obj)):
                await quietly(client.patch(resource, ObjectKey.of(obj), obj))

    def _suffix(self) -> str:
        return f"{self._keys.random.getrandbits(24):05x}"[:5]


def _subject(cluster: str) -> CertificateSubject:
    return CertificateSubject(agent_user(cluster, "agent"), (cluster_group(cluster), MANAGED_CLUSTERS_GROUP))


def _condition(type_: str, reason: str, now: str) -> Object:
    return {"type": type_, "status": "True", "reason": reason, "message": reason, "lastTransitionTime": now}


def _conditions(obj: Object | None, replaced: Object) -> list[Object]:
    rows = ((obj or {}).get("status") or {}).get("conditions") or ()
    return [row for row in rows if row.get("type") != replaced["type"]]


def _cluster_objects(cluster: str) -> list[tuple[Resource, Object]]:
    """Return namespace, roles and bindings of a cluster, as the templates of Open Cluster Management have them."""
    labels = {"labels": {Label.CLUSTER_NAME: cluster}}
    groups = (f"system:open-cluster-management:{cluster}", f"open-cluster-management:{cluster}")
    subjects = [{"kind": "Group", "apiGroup": RBAC, "name": group} for group in groups]
    own = ObjectKey.cluster(cluster_role(cluster))
    rules = [
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "list", "watch"],
        },
        {
            "apiGroups": ["register.open-cluster-management.io"],
            "resources": ["managedclusters/clientcertificates"],
            "verbs": ["renew"],
        },
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclusters"],
            "resourceNames": [cluster],
            "verbs": ["get", "list", "update", "watch"],
        },
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclusters/status"],
            "resourceNames": [cluster],
            "verbs": ["patch", "update"],
        },
    ]

    def reference(name: str) -> Object:
        return {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}

    kept = {**labels, "finalizers": [Finalizer.MANIFEST_WORK]}
    common = "open-cluster-management:managedcluster"
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(cluster), metadata=labels)),
        (CLUSTER_ROLES, CLUSTER_ROLES.manifest(own, metadata=labels, rules=rules)),
        (
            CLUSTER_ROLE_BINDINGS,
            CLUSTER_ROLE_BINDINGS.manifest(own, metadata=labels, roleRef=reference(own.name), subjects=subjects),
        ),
        (
            ROLE_BINDINGS,
            ROLE_BINDINGS.manifest(
                ObjectKey(cluster, registration_binding(cluster)),
                metadata=labels,
                roleRef=reference(f"{common}:registration"),
                subjects=subjects,
            ),
        ),
        (
            ROLE_BINDINGS,
            ROLE_BINDINGS.manifest(
                ObjectKey(cluster, work_binding(cluster)),
                metadata=kept,
                roleRef=reference(f"{common}:work"),
                subjects=subjects,
            ),
        ),
    ]
