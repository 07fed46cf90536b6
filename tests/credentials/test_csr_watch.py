"""Certificate requests are watched only while a decision is pending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from watchword.api.meta import ObjectKey, Resource
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.credentials.credential_secret import PendingCsrWatch
from watchword.credentials.driver import ObtainResult, Pending, ValidCredential
from watchword.kube.watch import Snapshot, WatchUpdate
from watchword.runtime.api_server_connection import check_cache_readiness
from watchword.runtime.cache import Cache
from watchword.runtime.event_loop import running
from watchword.runtime.informer import Reduction, WatchScope
from watchword.testing.virtual_time import VirtualClock

OWN, OTHER = ObjectKey("agent", "own"), ObjectKey("addons", "other")


class Feed:
    """A server without events that counts its watches."""

    def __init__(self) -> None:
        self.listening = self.begun = 0

    async def __call__(
        self, _resource: Resource, _scope: WatchScope, _reduce: Reduction
    ) -> AsyncGenerator[WatchUpdate, None]:
        self.begun += 1
        self.listening += 1
        try:
            yield Snapshot([], str(self.begun))
            await asyncio.Event().wait()
        finally:
            self.listening -= 1


def waits() -> Pending:
    return Pending("Waiting", "waits", recheck=timedelta(minutes=2))


def has() -> ValidCredential:
    now = VirtualClock(asyncio.get_running_loop()).now()
    return ValidCredential(now + timedelta(days=1), now + timedelta(days=2))


@pytest.mark.parametrize(
    ("answers", "listening"),
    [
        pytest.param([], 1, id="until the first answer"),
        pytest.param([(OWN, waits)], 1, id="while a decision is waited for"),
        pytest.param([(OWN, has)], 0, id="no longer once it is there"),
        pytest.param([(OWN, has), (OWN, waits)], 1, id="again for the renewal"),
        pytest.param([(OWN, has), (OTHER, waits)], 1, id="for an add-on, too"),
        pytest.param([(OTHER, waits), (OWN, has), (OTHER, None)], 0, id="not for an add-on that is gone"),
    ],
)
async def test_requests_are_watched_while_a_caller_waits(
    answers: list[tuple[ObjectKey, object]], listening: int
) -> None:
    feed = Feed()
    cache = Cache(feed)
    cache.informer(CERTIFICATE_SIGNING_REQUESTS)
    csr_watch = PendingCsrWatch(cache, OWN)

    async with running(csr_watch.run(), "csr_watch"):
        await cache.sync()
        for secret, make in answers:
            answer: ObtainResult | None = make() if callable(make) else None
            csr_watch.track_pending(secret, answer)
            await asyncio.sleep(1)
        assert feed.listening == listening


async def test_idle_watch_is_healthy_after_any_time() -> None:
    cache = Cache(Feed())
    cache.informer(CERTIFICATE_SIGNING_REQUESTS)
    csr_watch = PendingCsrWatch(cache, OWN)

    async with running(csr_watch.run(), "csr_watch"):
        await cache.sync()
        csr_watch.track_pending(OWN, has())
        await asyncio.sleep(86400)

        assert check_cache_readiness(cache, stale_after=timedelta(minutes=10)) == ""
