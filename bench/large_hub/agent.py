"""One simulated agent: our own drivers and reconcilers, without a process and without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from bench.large_hub.addons import applied_work_status, driver_of
from bench.large_hub.changes import ClusterChanges
from watchword.addons.agent.credentials import AddonDrivers, AddonRegistrationReconciler, complete_registration
from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.hub.deployment import deploy_name
from watchword.api.addon import Addon
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import MANAGED_CLUSTERS_GROUP, ConditionType, Finalizer, agent_user, cluster_group
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.credentials.certificates.agent import CERTIFICATE, KEY
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialStatus,
    CredentialSubject,
    NewCredential,
    Pending,
    WantedCredential,
)
from watchword.kube.client import Client
from watchword.kube.connect import make_client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Conflict, KubeError
from watchword.kube.tls import ClientCertificate
from watchword.pki.keys import PrivateKey
from watchword.registration.agent.cluster_status import (
    ClusterHealth,
    LeaseRenewalReconciler,
    cluster_status_fields,
    decide_cluster_conditions,
    decide_credential_conditions,
)
from watchword.registration.agent.hub_connection import HubConnection
from watchword.registration.agent.membership import RegistrationRequest, register_cluster
from watchword.registration.catalog import CATALOG
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter
from watchword.runtime.work_queue import REQUEUE_BACKOFF

AGENT = "agent"
RETRY_SECONDS = 1.0
EVERYONE = "system:authenticated"
NODE = {"status": {name: {"cpu": "8", "memory": "32Gi", "pods": "110"} for name in ("capacity", "allocatable")}}
CLAIMS = [
    {"name": name, "value": value}
    for name, value in (
        ("id.k8s.io", "6f2a4a0c-7f0e-4f7e-9a41-2b8f0c1d2e3f"),
        ("kubeversion.open-cluster-management.io", "v1.34.4"),
        ("platform.open-cluster-management.io", "AWS"),
        ("product.open-cluster-management.io", "EKS"),
        ("region.open-cluster-management.io", "eu-central-1"),
    )
]


@dataclass(frozen=True)
class SharedConnections:
    """What all simulated agents use together: connections, one cache with a watch of each kind, the clock."""

    administrator: Client  # also carries the requests of the agents, which it impersonates
    bootstrap: Client
    endpoint: Endpoint
    cache: Cache
    changes: ClusterChanges
    clock: Clock
    random: Random
    connection: HubConnection = field(default_factory=HubConnection)

    def __post_init__(self) -> None:
        self.connection.uses_own_credential = True


class SimulatedAgent:
    """Joins, registers add-ons and renews its lease with the requests of our own agent.

    It uses its own certificate, on a connection of its own, for the requests that complete the join. Later requests
    are sent over shared connections by impersonation, so that RBAC applies to each, and watches are shared.
    """

    def __init__(self, name: str, shared: SharedConnections) -> None:
        self.name = name
        self._shared = shared
        self._key = ObjectKey.cluster(name)
        groups = (cluster_group(name), MANAGED_CLUSTERS_GROUP)
        self._subject = CredentialSubject(agent_user(name, AGENT), groups)
        self._client = shared.administrator.impersonating(self._subject.user, groups=(*groups, EVERYONE))
        self._status = StatusWriter(self._client, shared.clock)

    async def join(self) -> float:
        """Register, obtain a certificate and report with it; return how many seconds that took."""
        shared, began = self._shared, asyncio.get_running_loop().time()
        await register_cluster(shared.bootstrap, RegistrationRequest(self.name, uid=f"uid-of-{self.name}"))
        driver = CATALOG.by_name["csr"].agent(self._context(shared.bootstrap))
        issued = await self._obtain(driver, WantedCredential(self.name, self._subject))
        with shared.changes.subscribe(self.name) as changed:
            while (found := shared.cache.get(MANAGED_CLUSTERS, self._key)) is None or not _is_accepted(found):
                changed.clear()
                await changed.wait()
        own = self._own_client(issued)
        try:
            await self._lease_reconciler(own).reconcile(self._key)
            await self._report_cluster(StatusWriter(own, shared.clock), issued)
        finally:
            await own.close()
        return asyncio.get_running_loop().time() - began

    async def register_addon(self, addon: str) -> float:
        """Report an add-on's manifests as applied and obtain its credential; return how many seconds that took."""
        began = asyncio.get_running_loop().time()
        await asyncio.gather(self._apply_work(addon), self._obtain_addon_credential(addon))
        return asyncio.get_running_loop().time() - began

    async def renew_lease(self, *, first_after: float) -> None:
        """Renew the lease at the period that our agent chooses, for ever; the first time after so many seconds."""
        reconciler, pause = self._lease_reconciler(self._client), first_after
        while True:
            await asyncio.sleep(pause)
            try:
                outcome = await reconciler.reconcile(self._key)
            except KubeError:  # the rights of a copy are known to the API server a moment later
                pause = RETRY_SECONDS
            else:
                pause = outcome.delay.total_seconds() if isinstance(outcome, RetryAfter) else RETRY_SECONDS

    def _context(self, client: Client) -> AgentContext:
        return AgentContext(
            hub=client, reader=self._shared.cache, clock=self._shared.clock, new_key=PrivateKey.generate
        )

    def _lease_reconciler(self, client: Client) -> LeaseRenewalReconciler:
        shared = self._shared
        return LeaseRenewalReconciler(shared.cache, client, shared.clock, shared.random, shared.connection)

    def _own_client(self, issued: NewCredential) -> Client:
        held = ClientCertificate(issued.data[CERTIFICATE], Sensitive(issued.data[KEY]))
        return make_client(self._shared.endpoint, FixedCredential(Credential(certificate=held)))

    async def _obtain(self, driver: AgentDriver, wanted: WantedCredential) -> NewCredential:
        """Take the steps of a driver until it has the credential."""
        held: dict[str, bytes] = {}
        with self._shared.changes.subscribe(self.name) as changed:
            while True:
                changed.clear()
                answer = await driver.obtain(wanted, held)
                if isinstance(answer, NewCredential):
                    return answer
                if not isinstance(answer, Pending):
                    raise TypeError("a driver that was given no credential holds one")
                if answer.keep:
                    held |= answer.keep
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(answer.recheck.total_seconds()):
                        await changed.wait()

    async def _report_cluster(self, status: StatusWriter, issued: NewCredential) -> None:
        kind = CATALOG.by_name["csr"].credential
        conditions = (
            *decide_cluster_conditions(ClusterHealth("v1.34.4")),
            *decide_credential_conditions(kind, issued, None),
        )
        fields = cluster_status_fields("v1.34.4", [NODE], CLAIMS)
        change = StatusChange(conditions=conditions, fields=fields)
        await self._repeat(lambda: status.write(MANAGED_CLUSTERS, self._cluster(), change))

    async def _obtain_addon_credential(self, name: str) -> None:
        shared, key, driver = self._shared, ObjectKey(self.name, name), driver_of(name)
        drivers = AddonDrivers(ADDON_CATALOG, driver)
        await self._declare(key, drivers)
        registration = ADDON_CATALOG.by_name[driver]
        agent = registration.agent(self._context(self._client))
        with shared.changes.subscribe(self.name) as changed:
            while True:
                changed.clear()
                addon = self._addon(key)
                row = addon.kube_client
                assert row is not None
                wanted = registration.wanted(addon, row)
                if driver != "token" or wanted.service_account_uid:
                    break
                await changed.wait()
        issued = await self._obtain(agent, wanted)
        words = registration.credential.report([CredentialStatus(True, "", issued.message)])
        change = StatusChange(conditions=words)
        await self._repeat(lambda: self._status.write(MANAGED_CLUSTER_ADDONS, self._addon(key).object, change))

    async def _declare(self, key: ObjectKey, drivers: AddonDrivers) -> None:
        """Declare driver and subject once the hub has listed the registration."""
        reconciler = AddonRegistrationReconciler(self._shared.cache, self._status, drivers)
        with self._shared.changes.subscribe(self.name) as changed:
            while True:
                changed.clear()
                found = self._shared.cache.get(MANAGED_CLUSTER_ADDONS, key)
                addon = Addon.read(found) if found is not None else None
                row = addon.kube_client if addon is not None else None
                if addon is not None and row is not None:
                    if row.driver and complete_registration(addon, row, drivers) == row:
                        return
                    with suppress(Conflict):  # the hub wrote at the same time: its event follows
                        await reconciler.reconcile(key)
                await changed.wait()

    async def _apply_work(self, addon: str) -> None:
        """Report the add-on's manifests as applied, as the work agent does after it has applied them."""
        key = ObjectKey(self.name, deploy_name(addon, 0))
        with self._shared.changes.subscribe(self.name) as changed:
            while (work := self._shared.cache.get(MANIFEST_WORKS, key)) is None:
                changed.clear()
                await changed.wait()
        await self._client.patch(MANIFEST_WORKS, key, {"metadata": {"finalizers": [Finalizer.MANIFEST_WORK]}})
        status = applied_work_status(work, at=rfc3339(self._shared.clock.now()))
        await self._client.patch(MANIFEST_WORKS, key, {"status": status}, subresource="status")

    async def _repeat(self, write: Callable[[], Awaitable[object]]) -> None:
        """Repeat a write that conflicts, with the delays of our controllers."""
        for failures in count(1):
            try:
                await write()
            except Conflict:
                await asyncio.sleep(REQUEUE_BACKOFF.delay(failures, self._shared.random))
            else:
                return

    def _cluster(self) -> Object:
        found = self._shared.cache.get(MANAGED_CLUSTERS, self._key)
        assert found is not None
        return found

    def _addon(self, key: ObjectKey) -> Addon:
        found = self._shared.cache.get(MANAGED_CLUSTER_ADDONS, key)
        assert found is not None
        return Addon.read(found)


def _is_accepted(cluster: Object) -> bool:
    return is_true(cluster, ConditionType.HUB_ACCEPTED)
