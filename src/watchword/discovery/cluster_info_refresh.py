"""Keeps what a client knows about its cluster fresh, through CA rotations and moves of the API server."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from watchword.discovery.client_factory import ClientFactory
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.published_cluster_info import PublishedClusterInfo, fetch_cluster_info
from watchword.kube.errors import ApiStatusError, KubeError


class RefreshResult(StrEnum):
    """The result of one refresh."""

    CURRENT = "Current"  # the cluster publishes what we know
    UPDATED = "Updated"  # it published something newer, and that works
    KEPT = "Kept"  # it publishes nothing usable, or something that does not work (yet): ours stays
    LOST = "Lost"  # no address responds in a way that can be trusted


class ClusterInfoRefresher(Struct):
    """The ClusterInfo of one client, followed for as long as it runs.

    A new one is trusted only when it came through an authority of the old one, and it replaces the old one only
    after it has been seen to work. An address that works is kept, whether it is published or not: an
    administrator may have chosen it. The others are used when it fails.
    """

    info: ClusterInfo
    address: str  # in use
    client_factory: ClientFactory

    async def refresh(self) -> RefreshResult:
        """Look once: at regular intervals, and when a connection failed."""
        reached = False
        for server in dict.fromkeys((self.address, *self.info.endpoints)):
            try:
                published = await self._read(server, self.info)
            except ApiStatusError:  # it proved itself, and shows no cluster-info
                reached = True
            except KubeError:
                continue
            else:
                return await self._consider(server, published)
        return RefreshResult.KEPT if reached else RefreshResult.LOST

    async def _consider(self, server: str, published: PublishedClusterInfo) -> RefreshResult:
        try:
            candidate = read_cluster_info(published.text)
        except ClusterInfoRefused:
            return RefreshResult.KEPT
        working: str | None = server
        if candidate != self.info:
            working = await self._working_address(candidate, published)
        elif server == self.address:
            return RefreshResult.CURRENT
        if working is None:
            return RefreshResult.KEPT
        self.info, self.address = candidate, working
        return RefreshResult.UPDATED

    async def _working_address(self, candidate: ClusterInfo, published: PublishedClusterInfo) -> str | None:
        """Return an address that responds under the new authorities and publishes the same content."""
        for server in dict.fromkeys((self.address, *candidate.endpoints)):
            try:
                again = await self._read(server, candidate)
            except KubeError:
                continue
            if again.text == published.text:
                return server
        return None

    async def _read(self, server: str, info: ClusterInfo) -> PublishedClusterInfo:
        client = self.client_factory.verified(server, info.ca_bundle)
        try:
            return await fetch_cluster_info(client)
        finally:
            await client.close()
