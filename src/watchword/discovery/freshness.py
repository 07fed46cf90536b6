"""Keeps what a client knows about its cluster fresh, through CA rotations and moves of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from random import Random

from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info, write_cluster_info
from watchword.discovery.dialing import Dialer
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.published import PublishedInfo, read_published
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.errors import ApiStatusError, KubeError
from watchword.kube.files import read_small_file, write_private_file


class Freshness(StrEnum):
    """What one look at the cluster told."""

    CURRENT = "Current"  # the cluster publishes what we know
    UPDATED = "Updated"  # it published something newer, and that works
    KEPT = "Kept"  # it publishes nothing usable, or something that does not work (yet): ours stays
    LOST = "Lost"  # no address answers in a way that can be trusted


@dataclass(slots=True)
class ClusterInfoStore:
    """A ClusterInfo in a file, replaced in one step."""

    path: Path

    def load(self) -> ClusterInfo:
        """Read it; raises `ClusterInfoRefused` or `ConfigError`."""
        return read_cluster_info(read_small_file(self.path, "cluster-info file"), ca_required=False)

    def save(self, info: ClusterInfo) -> None:
        """Replace it."""
        write_private_file(self.path, write_cluster_info(info).encode())


def _nobody(_: ClusterInfo) -> None:
    return None


@dataclass(slots=True)
class FreshClusterInfo:
    """The ClusterInfo of one client, followed for as long as it runs.

    A new one is believed only when it came through an authority of the old one, or when the client's own
    token signed it; and it replaces the old one only after it has been seen to work.
    """

    info: ClusterInfo
    dialer: Dialer
    token: BootstrapToken | None = None
    save: Callable[[ClusterInfo], None] = _nobody
    every: timedelta = timedelta(minutes=10)
    random: Random = field(default_factory=Random)

    async def run(self, on_look: Callable[[Freshness], None] | None = None) -> None:
        """Look again and again, for ever, each time at a slightly different interval."""
        while True:
            seen = await self.refresh()
            if on_look is not None:
                on_look(seen)
            await asyncio.sleep(self.every.total_seconds() * (0.9 + self.random.random() / 5))

    async def refresh(self) -> Freshness:
        """Look once; also worth calling when a connection failed."""
        published, reached = await self._through_known_authorities()
        if published is None and not reached:
            published = await self._by_signature()
            if published is None:
                return Freshness.LOST
        if published is None:
            return Freshness.KEPT
        return await self._consider(published)

    async def _through_known_authorities(self) -> tuple[PublishedInfo | None, bool]:
        """Ask each address in turn; also tell whether any proved itself at all."""
        reached = False
        for server in self.info.endpoints:
            try:
                return await self._read(server, self.info.ca_bundle), True
            except ApiStatusError:  # it proved itself, and shows no cluster-info
                reached = True
            except KubeError:
                continue
        return None, reached

    async def _by_signature(self) -> PublishedInfo | None:
        """Ask each address without belief; only what our own token signed counts."""
        for server in self.info.endpoints if self.token is not None else ():
            client = self.dialer.unverified(server)
            try:
                heard = await read_published(client)
            except KubeError:
                continue
            finally:
                await client.close()
            if self.token is not None and heard.is_vouched_for(self.token):
                return heard
        return None

    async def _consider(self, published: PublishedInfo) -> Freshness:
        try:
            candidate = read_cluster_info(published.text)
        except ClusterInfoRefused:
            return Freshness.KEPT
        if candidate == self.info:
            return Freshness.CURRENT
        working = await self._working_address(candidate, published)
        if working is None:
            return Freshness.KEPT
        self.info = candidate
        self.save(candidate)
        return Freshness.UPDATED

    async def _working_address(self, candidate: ClusterInfo, published: PublishedInfo) -> str | None:
        """Return an address that answers under the new authorities and publishes the very same."""
        for server in candidate.endpoints:
            try:
                again = await self._read(server, candidate.ca_bundle)
            except KubeError:
                continue
            if again.text == published.text:
                return server
        return None

    async def _read(self, server: str, ca: bytes) -> PublishedInfo:
        client = self.dialer.verified(server, ca)
        try:
            return await read_published(client)
        finally:
            await client.close()
