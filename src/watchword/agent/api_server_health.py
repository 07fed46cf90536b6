"""Checks the health of this cluster's API server, with as few requests as possible."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
from msgspec import Struct

from watchword.api.resources import NODES
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.runtime.cache import Cache

MAX_WATCH_SILENCE = timedelta(seconds=75)  # a watch receives something every minute, at least a bookmark
HEALTH_CACHE_DURATION = timedelta(seconds=5)  # the report of a check triggers the next one at once
VERSION_CACHE_DURATION = timedelta(minutes=10)


class ClusterHealth(Struct, frozen=True):
    """The health that the cluster's own API server reports."""

    version: str
    trouble: str = ""  # empty: all is well


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


class ApiServerHealthCheck(Struct):
    """A watch that received something lately proves the API server alive; only a silent one is checked."""

    cluster: Client
    cache: Cache
    _version: str = ""
    _read_at: float = float("-inf")
    _checked_at: float = float("-inf")

    async def check(self) -> ClusterHealth:
        """Return the version and, when something is wrong, what."""
        try:
            now = asyncio.get_running_loop().time
            if self._is_silent() and now() - self._checked_at > HEALTH_CACHE_DURATION.total_seconds():
                await self.cluster.read("/livez")
                self._checked_at = now()
            if now() - self._read_at > VERSION_CACHE_DURATION.total_seconds():
                self._version = msgspec.json.decode(await self.cluster.read("/version"), type=_VersionInfo).git_version
                self._read_at = now()
        except (KubeError, msgspec.MsgspecError) as trouble:
            return ClusterHealth(self._version, trouble=str(trouble))
        return ClusterHealth(self._version)

    def _is_silent(self) -> bool:
        ages = [informer.age() for informer in self.cache.informers(NODES)]
        return not ages or any(age is None or age > MAX_WATCH_SILENCE.total_seconds() for age in ages)
