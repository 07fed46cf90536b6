"""Follows the hub when it moves or changes its certificate authority.

People say where the hub is in the bootstrap kubeconfig, and what they say anew always counts. In between the hub may
publish in kube-public/cluster-info that it has another address or authority. That is taken over only through an
authority that is believed already, and only once it has been seen to work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from watchword._structlog import structlog
from watchword.agent.hub_whereabouts import Whereabouts
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.dialing import Dialer
from watchword.discovery.freshness import FreshClusterInfo, Freshness
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import PkiError

EVERY = timedelta(minutes=15)
AT_MOST_EVERY = timedelta(minutes=1)  # also while the hub cannot be reached


@dataclass
class HubFollower:
    """Looks from time to time, and when the hub cannot be reached, whether it is somewhere else."""

    whereabouts: Whereabouts
    dialer: Dialer
    random: Random
    _fresh: FreshClusterInfo | None = field(default=None, init=False)

    async def run(self, doubted: asyncio.Event, moved: Callable[[], None]) -> None:
        """Follow the hub for ever; one request in a quarter of an hour while all is well."""
        log = structlog.get_logger("watchword.agent")
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY.total_seconds() * self.random.uniform(0.8, 1.2)):
                    await doubted.wait()
            doubted.clear()
            if await self.look():
                log.info("the hub is reached another way", server=self.whereabouts.entry().server)
                moved()
            await asyncio.sleep(AT_MOST_EVERY.total_seconds())

    async def look(self) -> bool:
        """Look once; returns whether the hub is reached another way from now on."""
        fresh = self._known()
        if fresh is None or await fresh.refresh() is not Freshness.UPDATED:
            return False
        known = self.whereabouts.entry().ca_data
        same = frozenset(split_bundle(known)) == frozenset(fresh.info.authorities)
        return self.whereabouts.found(fresh.address, known if same else fresh.info.ca_bundle)

    def _known(self) -> FreshClusterInfo | None:
        """Return what is known of the hub, anew when people have said something new; None when it is not followed."""
        try:
            entry = self.whereabouts.entry()
            if not is_followed(entry):
                return None
            info = ClusterInfo((entry.server,), split_bundle(entry.ca_data))
        except (ConfigError, PkiError):
            return None
        fresh = self._fresh
        if fresh is None or not _is_about(fresh, info):
            fresh = self._fresh = FreshClusterInfo(info, entry.server, self.dialer)
        return fresh


def is_followed(entry: ClusterEntry) -> bool:
    """Whether a hub can be followed: not through a proxy, nor under a name or a trust that people arranged."""
    return bool(entry.ca_data) and not (entry.insecure or entry.proxy_url or entry.tls_server_name)


def _is_about(fresh: FreshClusterInfo, info: ClusterInfo) -> bool:
    return fresh.address == info.server and frozenset(fresh.info.authorities) == frozenset(info.authorities)
