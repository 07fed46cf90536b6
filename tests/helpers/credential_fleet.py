"""A hub with every kind of credential, written straight to the API server: for views of a whole fleet."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.crds import HUB_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import ConditionType
from watchword.api.pull_secrets import ANNOTATION_ACCOUNT, DOCKERCFG_KEY, DOCKERCFG_TYPE
from watchword.api.resources import (
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.setup import FIELD_MANAGER, DiscoverySetup, discovery_manifests
from watchword.discovery.token_secret import TokenRecord, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.pki.authority import Authority
from watchword.processes.hub import HUB_LEASE
from watchword.pullsecrets.pull_secret import render_dockercfg
from watchword.registration.hub.installation import policy_manifests
from watchword.runtime.manifests import apply_manifests, establish_crds
from watchword.testing.builders import a_secret

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WRITES_AT_ONCE = 32


class CredentialFleet(Struct, frozen=True):
    """Writes clusters and credentials in chosen states; everything else about them is usual."""

    client: Client
    now: datetime

    async def define_kinds(self) -> None:
        await establish_crds(self.client, (*HUB_CRDS, *ACCOUNT_CRDS), manager="tests")

    async def install(self) -> None:
        """Define the kinds, and publish an authority to joining clusters."""
        await self.define_kinds()
        authority = Authority.make("kubernetes", now=self.now - 300 * DAY)
        info = ClusterInfo(("https://hub.example:6443",), (authority.certificate,))
        await apply_manifests(self.client, discovery_manifests(DiscoverySetup(info)), manager=FIELD_MANAGER)
        for resource, policy in policy_manifests():
            await self.client.apply(resource, policy, force=True)
        await self._namespace(HUB_LEASE.namespace)
        held = {"holderIdentity": "hub-1", "leaseDurationSeconds": 10**8, "renewTime": rfc3339_micro(self.now)}
        await self.client.apply(LEASES, LEASES.manifest(HUB_LEASE, spec=held), force=True)

    async def cluster(self, name: str, *, said: str = "", available: str = "True", age: timedelta = HOUR) -> None:
        """Write an accepted cluster with a certificate for a day; `said` is what its availability says."""
        message = said or f"the agent {'renews' if available == 'True' else 'stopped renewing'} its lease"
        rotated = format_validity(CredentialValidity(self.now - age, self.now - age + DAY))
        rows = (
            a_condition(ConditionType.HUB_ACCEPTED, "True", "HubClusterAdminAccepted", "accepted"),
            a_condition(ConditionType.JOINED, "True", "ManagedClusterJoined", "joined"),
            a_condition(ConditionType.AVAILABLE, available, _available_reason(available), message),
            a_condition(ConditionType.CERTIFICATE_ROTATED, "True", "ClientCertificateUpdated", rotated),
        )
        await self._namespace(name)
        spec = {"hubAcceptsClient": True, "leaseDurationSeconds": 60}
        labels = {"region": "eu-central" if len(name) % 2 else "us-east"}
        made = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), metadata={"labels": labels}, spec=spec)
        status = {"conditions": self._stamped(rows), "version": {"kubernetes": "v1.34.2"}}
        await self._write(MANAGED_CLUSTERS, made, status)

    async def waiting_cluster(self, name: str) -> None:
        """Write a cluster that has introduced itself and was not accepted."""
        await self._namespace(name)
        await self.client.create(
            MANAGED_CLUSTERS,
            MANAGED_CLUSTERS.manifest(
                ObjectKey.cluster(name), spec={"hubAcceptsClient": False, "leaseDurationSeconds": 60}
            ),
        )

    async def addon(self, cluster: str, name: str = "sample", *, age: timedelta = HOUR) -> None:
        """Write an add-on with a token for eight hours."""
        said = format_validity(CredentialValidity(self.now - age, self.now - age + 8 * HOUR))
        rows = (
            a_condition(ConditionType.ADDON_TOKEN_REFRESHED, "True", "AddonTokenRefreshed", said),
            a_condition(ConditionType.ADDON_AVAILABLE, "True", "ManagedClusterAddOnLeaseUpdated", "renews its lease"),
        )
        user = f"system:serviceaccount:{cluster}:{name}-agent"
        registration = {"type": "kubeClient", "kubeClient": {"driver": "token", "subject": {"user": user}}}
        status = {"conditions": self._stamped(rows), "registrations": [registration]}
        await self._write(
            MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(cluster, name), spec={}), status
        )

    async def account(self, cluster: str, name: str = "robot", *, age: timedelta = HOUR) -> None:
        """Write a managed service account with a token for a day."""
        status: Object = {
            "expirationTimestamp": rfc3339(self.now - age + DAY),
            "nextRenewalTimestamp": rfc3339(self.now - age + 18 * HOUR),
            "tokenSecretRef": {"name": name, "lastRefreshTimestamp": rfc3339(self.now - age)},
            "conditions": self._stamped((a_condition(ConditionType.TOKEN_REPORTED, "True", "TokenReported", ""),)),
        }
        made = MANAGED_SERVICE_ACCOUNTS.manifest(ObjectKey(cluster, name), spec={"rotation": {"enabled": True}})
        await self._write(MANAGED_SERVICE_ACCOUNTS, made, status)

    async def join_token(self, *, life: timedelta = DAY, description: str = "") -> BootstrapToken:
        """Write a join token."""
        record = TokenRecord(BootstrapToken.generate(), expires=self.now + life, description=description)
        await self.client.create(SECRETS, write_token_secret(record))
        return record.token

    async def pull_secret(self, namespace: str, account: str = "default", *, age: timedelta = HOUR) -> str:
        """Write a pull secret with a token for a day; return the token."""
        await self._namespace(namespace)
        token = an_unsigned_token(namespace, account, self.now - age, self.now - age + DAY)
        content = render_dockercfg(["registry.example:5000"], Sensitive(token))
        secret = a_secret(
            f"{account}-dockercfg", namespace=namespace, data={DOCKERCFG_KEY: content}, kind=DOCKERCFG_TYPE,
            annotations={ANNOTATION_ACCOUNT: account},
        )  # fmt: skip
        await self.client.create(SECRETS, secret)
        return token

    async def event(self, about: str, note: str, *, kind: str = "Normal") -> None:
        """Write an event about a cluster."""
        made = EVENTS.manifest(
            ObjectKey("default", f"{about}.{hashlib.sha256(note.encode()).hexdigest()[:16]}"),
            eventTime=rfc3339_micro(self.now),
            action="Reconcile",
            reason="Noted",
            note=note,
            type=kind,
            reportingController="watchword.dev/tests",
            reportingInstance="tests",
            regarding={"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedCluster", "name": about},
        )
        await self.client.create(EVENTS, made)

    async def everything(self) -> None:
        """Write a small fleet in which every kind of credential and several problems occur."""
        for number in range(1, 6):
            await self.cluster(f"edge-{number}", age=number * HOUR)
            await self.addon(f"edge-{number}")
        await self.cluster("edge-6", available="Unknown", said="the lease was not renewed since 11:52")
        await self.cluster("edge-7", age=22 * HOUR)
        await self.cluster("edge-8", age=25 * HOUR)
        await self.waiting_cluster("edge-9")
        await self.account("edge-1")
        await self.account("edge-2", age=30 * HOUR)
        await self.join_token(description="for the north sites")
        await self.pull_secret("shop")
        await self.event("edge-6", "the lease was not renewed for five minutes", kind="Warning")

    async def many(self, clusters: int) -> None:
        """Write many clusters, each with an add-on and an account; a few of them need attention."""
        await _limited(self._one_of_many(number) for number in range(clusters))

    async def _one_of_many(self, number: int) -> None:
        name, age = f"cluster-{number:04}", timedelta(minutes=number % 1000)
        available = "Unknown" if number % 251 == 7 else "True"
        await self.cluster(name, available=available, age=22 * HOUR if number % 401 == 11 else age)
        await self.addon(name, age=age / 4)
        await self.account(name, age=age)

    async def _namespace(self, name: str) -> None:
        try:
            await self.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
        except AlreadyExists:
            return

    async def _write(self, resource: Resource, obj: Object, status: Mapping[str, Any]) -> None:
        made = await self.client.create(resource, obj)
        await self.client.update(resource, {**made, "status": status}, subresource="status")

    def _stamped(self, rows: Iterable[Object]) -> list[Object]:
        return [{**row, "lastTransitionTime": rfc3339(self.now - HOUR)} for row in rows]


def a_condition(type_: str, status: str, reason: str, message: str) -> Object:
    """Return a condition without its time."""
    return {"type": type_, "status": status, "reason": reason, "message": message}


def an_unsigned_token(namespace: str, account: str, issued: datetime, expires: datetime) -> str:
    """Return what a bound service account token looks like; no server accepts it."""
    claims = {
        "iat": int(issued.timestamp()),
        "exp": int(expires.timestamp()),
        "sub": f"system:serviceaccount:{namespace}:{account}",
        "aud": ["registry"],
        "kubernetes.io": {"serviceaccount": {"name": account, "uid": "1"}, "secret": {"name": "s", "uid": "2"}},
    }
    parts = (orjson.dumps({"alg": "ES256", "kid": "k1"}), orjson.dumps(claims), b"not-a-signature")
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def _available_reason(status: str) -> str:
    return "ManagedClusterAvailable" if status == "True" else "ManagedClusterLeaseUpdateStopped"


async def _limited(writes: Iterable[Awaitable[None]]) -> None:
    limit = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(write: Awaitable[None]) -> None:
        async with limit:
            await write

    await asyncio.gather(*(one(write) for write in writes))
