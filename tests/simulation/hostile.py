"""What a cluster writes to the hub whose programs were replaced: extremes in every field that it may write."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from tests.simulation.administrator import Administrator, quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.extremes import extreme_value, schema_of
from tests.simulation.held_credentials import ADDON
from tests.simulation.planes import SeededKeys, StoreReader, replayable_client
from tests.simulation.pods import CredentialTransport

from watchword.api.accounts import ADDON_NAME as ACCOUNTS
from watchword.api.limits import LONGEST_LEASE
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import (
    ADDON_NAMESPACE,
    CLUSTER_LEASE,
    KUBE_CLIENT_SIGNER,
    Annotation,
    Finalizer,
    Label,
    addon_service_account,
    agent_user,
    cluster_group,
)
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CORE_EVENTS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    MANIFEST_WORKS,
    OCM_MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.kube.client import Client
from watchword.kube.errors import BadRequest, Forbidden, Invalid, KubeError, NotFound
from watchword.kube.request_sender import decode
from watchword.pki.subjects import CertificateSubject
from watchword.runtime.diff import apply_merge_patch

ACCOUNT = "robot"  # of the cluster, at the hub
WORK = "hostile"  # a work of the cluster that no other incident touches
MOST_AT_ONCE = 4  # writes of a cluster, and of its agent for accounts: all of them cost seconds of CPU
BETWEEN = 1.0  # seconds, so that each is seen by the programs which follow the object
HOSTILE_SIGNER = "example.com/hostile"
ODD = "\u202e\x00\x07\x1b[31m \u00e9\U0001f600\ufeff%s{}$(id)"
"""Right to left, control characters, a terminal's colours, what is beyond the first plane, and what is for a shell."""
DEEPEST = 60
LARGEST = 2**31 - 1
LONGEST_LEASE_SECONDS = int(LONGEST_LEASE.total_seconds())
LAST = "9999-12-31T23:59:59Z"
FIRST = "0001-01-01T00:00:00Z"
UNREADABLE = "2026-13-32T25:61:61Z"
UNUSED_STATUS = (
    "addOnConfiguration",
    "addOnMeta",
    "configReferences",
    "healthCheck",
    "kubeClientDriver",
    "supportedConfigs",
)
"""Of a ManagedClusterAddOn: what no program of ours writes."""

WORK_SETTINGS = ("deleteOption", "manifestConfigs")
"""Of a ManifestWork, besides the manifests and their executor."""

NO_CONDITION: Object = {"conditions": [{"type": "Extreme", "status": "True", "lastTransitionTime": UNREADABLE}]}


class HostileWrite(Struct, frozen=True, kw_only=True):
    """One write by one verb of a role; `refusal`: what the API server answers, None where it stores it."""

    verb: str
    resource: Resource
    key: ObjectKey
    change: Mapping[str, Any]  # to an object, or what is created
    subresource: str = ""
    refusal: type[KubeError] | None = None

    @property
    def right(self) -> tuple[str, str, str]:
        """The verb, group and resource that a role has to name."""
        path = f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural
        return self.verb, self.resource.group, path

    async def send(self, client: Client, stored: StoreReader) -> Object:
        """Write it; return what the server stored."""
        if self.subresource == "token":
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **self.change}
            return decode(await client.request("POST", self.resource.path(self.key, subresource="token"), body=body))
        if self.verb == "create":
            return await client.create(self.resource, dict(self.change))
        if self.verb == "patch":
            return await client.patch(self.resource, self.key, self.change, subresource=self.subresource)
        found = stored.get(self.resource, self.key) or self.resource.manifest(self.key)
        whole = {**apply_merge_patch(found, self.change), "apiVersion": self.resource.api_version}
        return await client.update(self.resource, whole, subresource=self.subresource)


def accounts_client(member: SimulatedCluster) -> Client:
    """Return a client with the credential of the agent for managed service accounts, that no fault reaches."""
    secret = ObjectKey(ADDON_NAMESPACE, f"{ACCOUNTS}-hub-kubeconfig")
    return replayable_client(CredentialTransport(member.hub, member, secret))


@dataclass
class HostileCluster:
    """Writes with the credentials of a cluster; administrators undo what belongs to them, and the product the rest."""

    member: SimulatedCluster
    stored: StoreReader
    admin: Administrator
    amount: float
    most: int = MOST_AT_ONCE

    async def write(self) -> list[HostileWrite]:
        """Write as much as is allowed at once, chosen by the amount; return what was stored."""
        name, accepted, random = self.member.name, list[HostileWrite](), Random(self.amount)
        work = MANIFEST_WORKS.manifest(ObjectKey(name, WORK), spec={"workload": {"manifests": []}})
        with suppress(KubeError):  # there is no namespace, or it is being removed
            await self.admin.client.create(MANIFEST_WORKS, work)
        for client, rows in self._clients(SeededKeys(random)):
            for row in random.sample(rows, min(self.most, len(rows))):
                accepted += [row] if await quietly(row.send(client, self.stored)) else []
                await asyncio.sleep(BETWEEN)
            await client.close()
        return accepted

    def _clients(self, keys: SeededKeys) -> Iterator[tuple[Client, list[HostileWrite]]]:
        if (client := self.member.as_itself()) is not None:
            yield client, [*cluster_writes(self.member.name, self.amount, keys)]
        if "accounts" in self.member.profile.pillars:
            yield accounts_client(self.member), [*accounts_writes(self.member.name, self.amount)]


async def undo_hostile_writes(member: SimulatedCluster, admin: Administrator) -> None:
    """Take back what no program writes, as administrators do."""
    client, own = admin.client, ObjectKey.cluster(member.name)
    addon, work = ObjectKey(member.name, ADDON), ObjectKey(member.name, WORK)
    gone = dict.fromkeys((Annotation.LEFT_ON, Annotation.IMAGE_REGISTRIES, "extreme"))
    spec = {"taints": None, "managedClusterClientConfigs": None}
    status = {**dict.fromkeys(UNUSED_STATUS), "namespace": None, "registrations": [{"type": "kubeClient"}]}
    await admin.insist(lambda: client.patch(MANAGED_CLUSTERS, own, {"metadata": {"annotations": gone}, "spec": spec}))
    await admin.insist(lambda: client.patch(MANAGED_CLUSTER_ADDONS, addon, {"status": status}, subresource="status"))
    await admin.insist(lambda: client.delete(MANIFEST_WORKS, work))


def cluster_writes(cluster: str, amount: float, keys: SeededKeys) -> Iterator[HostileWrite]:
    """Yield what the cluster itself writes; the amount says how extreme it is."""
    yield from _to_cluster(cluster, amount)
    yield from _to_lease_and_works(cluster, amount)
    yield from _to_events(cluster, amount)
    yield from _to_addons(cluster, amount)
    yield from _certificate_requests(cluster, amount, keys)


def _each(resource: Resource, key: ObjectKey, *changes: Object, **more: Any) -> Iterator[HostileWrite]:
    """Yield each change as a patch and as an update."""
    for change in changes:
        for verb in ("patch", "update"):
            yield HostileWrite(verb=verb, resource=resource, key=key, change=change, **more)


def _status(resource: Resource, key: ObjectKey, *changes: Object, **more: Any) -> Iterator[HostileWrite]:
    yield from _each(resource, key, *({"status": change} for change in changes), subresource="status", **more)


def _long(amount: float, most: int) -> str:
    return (ODD + "x" * most)[: max(len(ODD), int(amount * most))]


def _extreme(resource: Resource, amount: float, *path: str) -> Object:
    """Return a change of one field to everything that its schema permits."""
    return {path[-1]: extreme_value(schema_of(resource, *path), _long(amount, 60_000))}


def _conditions(amount: float) -> Iterator[Object]:
    row = {"type": "Extreme", "status": "True", "reason": "R", "message": _long(amount, 32768)}
    for instant in (LAST, FIRST):
        yield {"conditions": [{**row, "lastTransitionTime": instant, "observedGeneration": 2**53}]}
    many = [
        {**row, "type": f"Extreme{n}", "message": ODD, "lastTransitionTime": LAST} for n in range(int(amount * 300))
    ]
    yield {"conditions": many}


def _to_cluster(cluster: str, amount: float) -> Iterator[HostileWrite]:
    own, number = ObjectKey.cluster(cluster), "9" * int(1 + amount * 300)
    kept: list[Object] = [
        {"metadata": {"annotations": {name: value}}}
        for name in (Annotation.ROTATION_REQUEST, Annotation.IMAGE_REGISTRIES, Annotation.CLUSTER_UID, "extreme")
        for value in (_long(amount, 60_000), LAST)
    ]
    taints = [
        {"key": f"t{n}", "value": _long(amount, 1024), "effect": "NoSelect", "timeAdded": LAST} for n in range(99)
    ]
    urls = [{"url": f"https://{_long(amount, 1000)}", "caBundle": "c2NyaWJibGU="} for _ in range(int(amount * 100))]
    kept += [{"metadata": {"annotations": {Annotation.LEFT_ON: UNREADABLE}}}]
    kept += [
        {"spec": {"taints": taints, "managedClusterClientConfigs": urls, "leaseDurationSeconds": LONGEST_LEASE_SECONDS}}
    ]
    forbidden: list[Object] = [
        {"metadata": {"annotations": {Annotation.DENIED_ON: LAST}}},
        {"metadata": {"labels": {"extreme": "x"}}},
        {"metadata": {"finalizers": [Finalizer.ACCOUNT]}},
    ]
    invalid: list[Object] = [{"spec": {"leaseDurationSeconds": seconds}} for seconds in (-LARGEST, LARGEST)]
    for changes, refusal in ((kept, None), (forbidden, Forbidden), (invalid, Invalid)):
        for change in changes:
            yield HostileWrite(verb="update", resource=MANAGED_CLUSTERS, key=own, change=change, refusal=refusal)
    claims = [{"name": f"claim-{n}", "value": _long(amount, 1024)} for n in range(int(1 + amount * 500))]
    resources = {"capacity": {"cpu": number, _long(amount, 63): f"{number}Gi"}, "allocatable": {"memory": f"-{number}"}}
    version = {"version": {"kubernetes": _long(amount, 60_000)}}
    namespaces = _extreme(MANAGED_CLUSTERS, amount, "status", "managedNamespaces")
    reports = (version, resources, namespaces, {"clusterClaims": claims}, *_conditions(amount))
    yield from _status(MANAGED_CLUSTERS, own, *reports)
    yield from _status(MANAGED_CLUSTERS, own, NO_CONDITION, {"capacity": {"cpu": ODD}}, refusal=Invalid)


def _to_lease_and_works(cluster: str, amount: float) -> Iterator[HostileWrite]:
    lease, work = ObjectKey(cluster, CLUSTER_LEASE), ObjectKey(cluster, WORK)
    held = {"leaseDurationSeconds": LARGEST, "holderIdentity": _long(amount, 60_000), "leaseTransitions": LARGEST}
    for instant in (LAST.replace("Z", ".000000Z"), FIRST.replace("Z", ".000000Z")):
        yield from _each(LEASES, lease, {"spec": {**held, "renewTime": instant, "acquireTime": instant}})
    yield from _each(LEASES, lease, {"spec": {"leaseDurationSeconds": -1}}, refusal=Invalid)
    unreadable = HostileWrite(verb="patch", resource=LEASES, key=lease, change={"spec": {"renewTime": UNREADABLE}})
    yield from (replace(unreadable, refusal=Invalid), replace(unreadable, verb="update", refusal=BadRequest))
    nested: Any = ODD
    for _ in range(int(1 + amount * DEEPEST)):
        nested = {"deeper": [nested]}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WORK, "namespace": "default"}}
    changes: list[Object] = [
        {"spec": {"workload": {"manifests": [{**manifest, "data": nested}]}}},
        {"metadata": {"annotations": {"extreme": _long(amount, 60_000)}}},
        *({"spec": _extreme(MANIFEST_WORKS, amount, "spec", name)} for name in WORK_SETTINGS),
    ]
    yield from _each(MANIFEST_WORKS, work, *changes)
    executor: Object = {"spec": _extreme(MANIFEST_WORKS, amount, "spec", "executor")}
    yield from _each(MANIFEST_WORKS, work, executor, refusal=Forbidden)
    value = {"name": ODD, "fieldValue": {"type": "Integer", "integer": -(2**63), "string": _long(amount, 60_000)}}
    fed = {"resourceMeta": {"ordinal": LARGEST, "name": ODD}, "conditions": [], "statusFeedback": {"values": [value]}}
    yield from _status(MANIFEST_WORKS, work, *_conditions(amount), {"resourceStatus": {"manifests": [fed] * 20}})
    yield from _status(MANIFEST_WORKS, work, _extreme(MANIFEST_WORKS, amount, "status", "resourceStatus"))
    yield from _status(MANIFEST_WORKS, work, NO_CONDITION, refusal=Invalid)


def _to_events(cluster: str, amount: float) -> Iterator[HostileWrite]:
    for resource, about, text in ((CORE_EVENTS, "involvedObject", "message"), (EVENTS, "regarding", "note")):
        key = ObjectKey(cluster, f"hostile-{text}-{int(amount * 10**6)}")
        named = {"kind": MANAGED_CLUSTERS.kind, "name": cluster, "namespace": cluster, "uid": _long(amount, 9000)}
        by = "reportingController" if resource is EVENTS else "reportingComponent"
        event = {about: named, text: _long(amount, 900), "reason": "AccountRevoked", "type": "Normal", "action": ODD}
        event |= {by: "example.com/x", "reportingInstance": "x", "eventTime": LAST.replace("Z", ".000000Z")}
        yield HostileWrite(verb="create", resource=resource, key=key, change=resource.manifest(key, **event))
        annotated = {"metadata": {"annotations": {"extreme": _long(amount, 60_000)}}}
        yield from _each(resource, key, apply_merge_patch(resource.manifest(key, **event), annotated))


def _to_addons(cluster: str, amount: float) -> Iterator[HostileWrite]:
    subject = {"user": _long(amount, 200), "groups": ["system:masters", ODD], "organizationUnits": [ODD] * 50}
    registrations = [
        {"type": "kubeClient", "kubeClient": {"driver": "csr", "subject": subject}},
        {"type": "customSigner", "customSigner": {"signerName": HOSTILE_SIGNER, "subject": subject}},
    ]
    many = [
        {"group": ODD, "resource": ODD, "namespace": ODD, "name": _long(amount, 300)}
        for _ in range(int(1 + amount * 100))
    ]
    changes: list[Object] = [
        {"namespace": _long(amount, 300)},
        {"relatedObjects": many},
        {"registrations": registrations},
    ]
    changes += [_extreme(MANAGED_CLUSTER_ADDONS, amount, "status", name) for name in UNUSED_STATUS]
    for addon in (ADDON, ACCOUNTS):
        own, account = ObjectKey(cluster, addon), ObjectKey(cluster, addon_service_account(cluster, addon))
        yield from _status(MANAGED_CLUSTER_ADDONS, own, *_conditions(amount), *changes)
        longest: Object = {"registrations": [{"type": _long(amount, 100)}]}
        yield from _status(MANAGED_CLUSTER_ADDONS, own, longest, NO_CONDITION, refusal=Invalid)
        for seconds, refusal in ((LARGEST, None), (-1, Invalid)):
            spec = {"spec": {"expirationSeconds": seconds, "audiences": [ODD]}}
            token = HostileWrite(
                verb="create", resource=SERVICE_ACCOUNTS, key=account, change=spec, subresource="token"
            )
            yield replace(token, refusal=refusal)


def _certificate_requests(cluster: str, amount: float, keys: SeededKeys) -> Iterator[HostileWrite]:
    """Yield requests in the name of others, to other signers, and for a second or decades."""
    masters = CertificateSubject("x", ("system:masters",))
    specs = (
        (CertificateSubject(agent_user("edge-0", "x"), (cluster_group("edge-0"),)), KUBE_CLIENT_SIGNER, LARGEST, None),
        (CertificateSubject("x" * 64, tuple(f"{n}{ODD[1:]}" for n in range(20))), KUBE_CLIENT_SIGNER, 600, None),
        (CertificateSubject("x"), HOSTILE_SIGNER, LARGEST, None),
        (CertificateSubject("x"), KUBE_CLIENT_SIGNER, -1, Invalid),
        (masters, KUBE_CLIENT_SIGNER, 600, Forbidden),
    )
    for number, (subject, signer, seconds, refusal) in enumerate(specs):
        name = f"hostile.{number}.{int(amount * 10**6)}.{cluster}"
        labels = {Label.CLUSTER_NAME: cluster, Label.ADDON_NAME: "x" * 63}
        spec = CertificateSpec(subject, signer, timedelta(seconds=seconds), name, labels=labels)
        manifest, key = certificate_request_manifest(spec, keys()), ObjectKey.cluster(name)
        yield HostileWrite(
            verb="create", resource=CERTIFICATE_SIGNING_REQUESTS, key=key, change=manifest, refusal=refusal
        )


def accounts_writes(cluster: str, amount: float) -> Iterator[HostileWrite]:
    """Yield what the agent of the add-on for managed service accounts writes."""
    own, forged = ObjectKey(cluster, ACCOUNT), ObjectKey(cluster, "forged")
    reference = {"name": _long(amount, 9000), "lastRefreshTimestamp": LAST}
    changes: list[Object] = [
        {"expirationTimestamp": LAST, "nextRenewalTimestamp": FIRST, "tokenSecretRef": reference},
        {"clusters": {"total": LARGEST, "present": LARGEST}},
        *_conditions(amount),
    ]
    for resource, missing in ((MANAGED_SERVICE_ACCOUNTS, None), (OCM_MANAGED_SERVICE_ACCOUNTS, NotFound)):
        yield from _status(resource, own, *changes, refusal=missing)
    yield from _status(
        MANAGED_SERVICE_ACCOUNTS, own, NO_CONDITION, {"expirationTimestamp": UNREADABLE}, refusal=Invalid
    )
    data = base64.b64encode(_long(amount, 60_000).encode()).decode()
    facts = {
        Annotation.TOKEN_EXPIRY: LAST,
        Annotation.TOKEN_ISSUED: UNREADABLE,
        Annotation.TOKEN_SERVER: _long(amount, 9000),
    }
    yield from _each(SECRETS, own, {"data": {"token": data, "ca.crt": data}}, {"metadata": {"annotations": facts}})
    yield from _each(SECRETS, own, {"data": {"note": data}}, {"metadata": {"labels": None}}, refusal=Forbidden)
    yield HostileWrite(
        verb="create",
        resource=SECRETS,
        key=forged,
        change=SECRETS.manifest(forged, data={"token": data}),
        refusal=Forbidden,
    )
