"""Leader election by Lease: one replica leads, and only while it certainly holds the lease."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any

import structlog
from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, mapping_at
from watchword.api.resources import LEASES
from watchword.api.time import rfc3339_micro
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, KubeError
from watchword.runtime.clock import Clock
from watchword.runtime.errors import NotLeading
from watchword.runtime.event_loop import run_until_stopped
from watchword.runtime.write_transports import Fence


class ElectionTiming(Struct, frozen=True):
    """All in seconds. A leader stops after `renew_deadline`; others wait for the longer `lease`."""

    lease: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.lease:
            raise ValueError("the retry period must be shorter than the renew deadline, and that than the lease")


class ObservedLease(Struct, frozen=True):
    """A lease as last read, and the loop's time at which this version was first read.

    The times inside the lease come from other machines' clocks, so they are only compared for equality.
    """

    lease: Object
    since: float

    @property
    def holder(self) -> str:
        return str(_spec(self.lease).get("holderIdentity") or "")

    def is_free(self, now: float) -> bool:
        """Whether the lease may be taken: it is free, or its holder has not renewed it for its whole duration."""
        duration = _spec(self.lease).get("leaseDurationSeconds")
        return not self.holder or now >= self.since + (duration if isinstance(duration, int) and duration > 0 else 15)


def observe_lease(lease: Object, before: ObservedLease | None, *, now: float) -> ObservedLease:
    """Store a lease that was read; an unchanged one keeps the instant at which it was first read."""
    if before is not None and _spec(before.lease) == _spec(lease):
        return ObservedLease(lease, before.since)
    return ObservedLease(lease, now)


def build_held_lease(lease: Object, *, identity: str, timing: ElectionTiming, now: datetime) -> Object:
    """Return the lease as its next holder writes it; the resourceVersion detects concurrent writes."""
    spec = _spec(lease)
    renewed = {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": timing.lease,
        "renewTime": rfc3339_micro(now),
    }
    if spec.get("holderIdentity") != identity:
        renewed["acquireTime"] = rfc3339_micro(now)
        renewed["leaseTransitions"] = _transitions(spec) + 1
    return {**lease, "spec": renewed}


class LeaderElector(Struct):
    """Competes for one Lease and opens the fence exactly while the lease is certainly held."""

    client: Client  # not fenced: the lease itself must be written without holding it
    key: ObjectKey
    identity: str
    fence: Fence
    clock: Clock
    random: Random
    timing: ElectionTiming = field(default_factory=ElectionTiming)
    _seen: ObservedLease | None = None
    _certain: bool = False  # whether the lease is as we last wrote it, as far as known

    async def run(self, lead: Callable[[], Awaitable[None]], *, stop: asyncio.Event | None = None) -> None:
        """Wait for leadership, or for `stop`; then lead until that ends.

        Raises `NotLeading` when leadership is lost first.
        """
        log: Any = structlog.get_logger("watchword.election").bind(lease=str(self.key), identity=self.identity)
        try:
            if await run_until_stopped(stop or asyncio.Event(), self._acquire()):
                log.info("leading", term=self.term)
                await self._lead(lead)
        finally:
            self.fence.close()
            log.info("not leading")
            await self._release()

    @property
    def term(self) -> int:
        """How often the lease has changed its holder, as far as known."""
        return _transitions(_spec(self._seen.lease)) if self._seen else 0

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done():  # first, so that writes of a former leader are refused
                self.fence.close()
                await renewing
            await leading
        finally:
            for task in (leading, renewing):
                task.cancel()
            await asyncio.gather(leading, renewing, return_exceptions=True)

    async def _acquire(self) -> None:
        while not await self._attempt(patience=self.timing.renew_deadline):  # noqa: ASYNC110 - the event is far away
            # Random delays, so that candidates do not retry in step.
            await asyncio.sleep(self.timing.retry * (1.0 + self.random.random()))

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.0, min(self.timing.retry, self.fence.until - loop.time())))
            left = self.fence.until - loop.time()
            if left > 0 and await self._attempt(patience=left):
                continue
            if self._seen is not None and self._seen.holder != self.identity:
                raise NotLeading(f"the lease {self.key} was taken by {self._seen.holder or 'no holder'}")
            if not self.fence.is_open:
                raise NotLeading(f"the lease {self.key} could not be renewed in time")

    async def _attempt(self, *, patience: float) -> bool:
        """Try once to take or renew the lease; a failed request alone is not fatal."""
        started, wall_started = asyncio.get_running_loop().time(), self.clock.now()
        certain, self._certain = self._certain, False
        try:
            async with asyncio.timeout(patience):
                held = self._certain = await self._claim(certain=certain)
        except Conflict:
            return False  # another candidate wrote it: the next attempt reads it first
        except (KubeError, TimeoutError) as error:
            structlog.get_logger("watchword.election").warning("lease not reached", error=str(error) or "timed out")
            return False
        if held:
            # The time before the request: other candidates count from when they see it, which is later.
            self.fence.extend(self.timing.renew_deadline, since=started, wall_since=wall_started)
        return held

    async def _claim(self, *, certain: bool) -> bool:
        loop = asyncio.get_running_loop()
        if self._seen is None or not certain:
            lease = await self.client.find(LEASES, self.key)
            if lease is None:
                fresh = self._as_holder(LEASES.manifest(self.key))
                self._seen = ObservedLease(await self.client.create(LEASES, fresh), loop.time())
                return True
            self._seen = observe_lease(lease, self._seen, now=loop.time())
            if self._seen.holder != self.identity and not self._seen.is_free(loop.time()):
                return False
        claim = self._as_holder(self._seen.lease)
        self._seen = ObservedLease(await self.client.update(LEASES, claim), loop.time())
        return True

    def _as_holder(self, lease: Object) -> Object:
        return build_held_lease(lease, identity=self.identity, timing=self.timing, now=self.clock.now())

    async def _release(self) -> None:
        """Release the lease so that another replica can lead immediately; otherwise it waits for the expiry."""
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self.timing.retry):
                if self._seen is not None and not self._certain:  # the last write may or may not have arrived
                    self._seen = observe_lease(await self.client.get(LEASES, self.key), self._seen, now=0.0)
                if self._seen is not None and self._seen.holder == self.identity:
                    spec = {**_spec(self._seen.lease), "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self.client.update(LEASES, {**self._seen.lease, "spec": spec})


def _spec(lease: Object) -> Mapping[str, Any]:
    return mapping_at(lease, "spec")


def _transitions(spec: Mapping[str, Any]) -> int:
    count = spec.get("leaseTransitions")
    return count if isinstance(count, int) and 0 <= count < 2**31 - 1 else 0  # 32 bits: counting begins anew
