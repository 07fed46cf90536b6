"""The agent of the sample add-on: keeps a report on the hub up to date with the credential it was given."""

import asyncio
from datetime import timedelta

import structlog
from msgspec import Struct

from watchword.addons.lease import AddonLease, UsedCredential
from watchword.addons.sample.hub import NAME, REPORT
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.api.time import rfc3339
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import run_until_stopped


class SampleAgent(Struct):
    """Reports on the hub that it runs, and on its own cluster, too, when it can reach that."""

    hub: Client
    cluster: str
    clock: Clock
    local: Client | None = None
    namespace: str = ""  # where its lease is, on its own cluster
    beats: int = 0
    used: UsedCredential | None = None

    async def beat(self) -> None:
        """Write one report; raises the hub's errors."""
        self.beats += 1
        data = {"beats": str(self.beats), "at": rfc3339(self.clock.now()), "cluster": self.cluster}
        await _put(self.hub, ObjectKey(self.cluster, REPORT), data)
        if self.local is not None and self.namespace:
            lease = AddonLease(self.local, ObjectKey(self.namespace, NAME), self.clock)
            self.used = self.used or UsedCredential(self.hub, self.clock)
            await lease.renew(credential_id=await self.used.current())

    async def run(self, every: timedelta, stop: asyncio.Event) -> None:
        """Report periodically; a refused report is retried at the next period."""
        log = structlog.get_logger("watchword.sample").bind(cluster=self.cluster)
        while not stop.is_set():
            try:
                await self.beat()
                log.info("reported", beats=self.beats)
            except KubeError as error:
                log.warning("not reported", error=str(error))
            await run_until_stopped(stop, asyncio.sleep(every.total_seconds()))


async def _put(hub: Client, key: ObjectKey, data: dict[str, str]) -> None:
    try:
        await hub.patch(CONFIG_MAPS, key, {"data": data})
    except NotFound:
        await hub.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data=data))
