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
from watchword.agent.hub_endpoint import HubEndpoint
from watchword.discovery.client_factory import ClientFactory
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.cluster_info_refresh import ClusterInfoRefresher, RefreshResult
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import PkiError

CHECK_INTERVAL = timedelta(minutes=15)
MIN_CHECK_INTERVAL = timedelta(minutes=1)  # also while the hub cannot be reached


@dataclass
class HubEndpointMonitor:
    """Looks from time to time, and when the hub cannot be reached, whether it is somewhere else."""

    endpoint: HubEndpoint
    client_factory: ClientFactory
    random: Random
    _cluster_info: ClusterInfoRefresher | None = field(default=None, init=False)

    async def run(self, unreachable: asyncio.Event, endpoint_changed: Callable[[], None]) -> None:
        """Follow the hub for ever; one request in a quarter of an hour while all is well."""
        log = structlog.get_logger("watchword.agent")
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL.total_seconds() * self.random.uniform(0.8, 1.2)):
                    await unreachable.wait()
            unreachable.clear()
            if await self.check():
                log.info("the hub is reached another way", server=self.endpoint.entry().server)
                endpoint_changed()
            await asyncio.sleep(MIN_CHECK_INTERVAL.total_seconds())

    async def check(self) -> bool:
        """Look once; returns whether the hub is reached another way from now on."""
        fresh = self._current_cluster_info()
        if fresh is None or await fresh.refresh() is not RefreshResult.UPDATED:
            return False
        known = self.endpoint.entry().ca_data
        same = frozenset(split_bundle(known)) == frozenset(fresh.info.authorities)
        return self.endpoint.record_move(fresh.address, known if same else fresh.info.ca_bundle)

    def _current_cluster_info(self) -> ClusterInfoRefresher | None:
        """Return what is known of the hub, anew when people have said something new; None when it is not followed."""
        try:
            entry = self.endpoint.entry()
            if not is_followable(entry):
                return None
            info = ClusterInfo((entry.server,), split_bundle(entry.ca_data))
        except (ConfigError, PkiError):
            return None
        fresh = self._cluster_info
        if fresh is None or not _is_about(fresh, info):
            fresh = self._cluster_info = ClusterInfoRefresher(info, entry.server, self.client_factory)
        return fresh


def is_followable(entry: ClusterEntry) -> bool:
    """Whether a hub can be followed: not through a proxy, nor under a name or a trust that people arranged."""
    return bool(entry.ca_data) and not (entry.insecure or entry.proxy_url or entry.tls_server_name)


def _is_about(fresh: ClusterInfoRefresher, info: ClusterInfo) -> bool:
    return fresh.address == info.server and frozenset(fresh.info.authorities) == frozenset(info.authorities)
