"""The agent of the sample add-on: keeps a report on the hub up to date with the credential it was given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from watchword._structlog import structlog
from watchword.addons.sample.hub import NAME, REPORT
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, LEASES
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound
from watchword.runtime.clock import Clock

LEASE_SECONDS = 60


@dataclass
class SampleAgent:
    """Reports on the hub that it runs, and on its own cluster, too, when it can reach that."""

    hub: Client
    cluster: str
    clock: Clock
    local: Client | None = None
    namespace: str = ""  # where its lease is, on its own cluster
    beats: int = 0

    async def beat(self) -> None:
        """Write one report; raises the hub's errors."""
        self.beats += 1
        data = {"beats": str(self.beats), "at": rfc3339(self.clock.now()), "cluster": self.cluster}
        await _put(self.hub, ObjectKey(self.cluster, REPORT), data)
        if self.local is not None and self.namespace:
            await self._renew_lease(self.local)

    async def _renew_lease(self, local: Client) -> None:
        spec: Object = {"leaseDurationSeconds": LEASE_SECONDS, "renewTime": rfc3339_micro(self.clock.now())}
        key = ObjectKey(self.namespace, NAME)
        try:
            await local.patch(LEASES, key, {"spec": spec})
        except NotFound:
            owners = await _own_account(local)
            await local.create(LEASES, LEASES.manifest(key, metadata={"ownerReferences": owners}, spec=spec))

    async def run(self, every: timedelta, stop: asyncio.Event) -> None:
        """Report periodically; a refused report is retried at the next period."""
        log = structlog.get_logger("watchword.sample").bind(cluster=self.cluster)
        while not stop.is_set():
            try:
                await self.beat()
                log.info("reported", beats=self.beats)
            except KubeError as trouble:
                log.warning("not reported", error=str(trouble))
            try:
                async with asyncio.timeout(every.total_seconds()):
                    await stop.wait()
            except TimeoutError:
                continue


async def _own_account(local: Client) -> list[Object]:
    """Return the account that the agent runs as, as the owner of what it makes: both go with the add-on."""
    me = await who_am_i(local)
    name = me.username.rpartition(":")[2]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": me.uid}
    return [account] if me.username.startswith("system:serviceaccount:") else []


async def _put(hub: Client, key: ObjectKey, data: dict[str, str]) -> None:
    try:
        await hub.patch(CONFIG_MAPS, key, {"data": data})
    except NotFound:
        await hub.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data=data))
