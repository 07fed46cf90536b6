"""Asks this cluster's API server how it is, and as seldom as possible."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from watchword.agent.cluster_status import Health
from watchword.api.resources import NODES
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.runtime.cache import Cache

SIGN_OF_LIFE = timedelta(seconds=75)  # a watch is told something every minute, if only that nothing happened
VERSION_GOOD_FOR = timedelta(minutes=10)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


@dataclass
class Examiner:
    """A watch that was heard lately proves the API server alive; only a silent one is asked."""

    cluster: Client
    cache: Cache
    _version: str = field(default="", init=False)
    _read_at: float = field(default=float("-inf"), init=False)

    async def __call__(self) -> Health:
        """Return the version and, when something is wrong, what."""
        try:
            if self._is_silent():
                await self.cluster.read("/livez")
            if asyncio.get_running_loop().time() - self._read_at > VERSION_GOOD_FOR.total_seconds():
                self._version = msgspec.json.decode(await self.cluster.read("/version"), type=_Version).git_version
                self._read_at = asyncio.get_running_loop().time()
        except (KubeError, msgspec.MsgspecError) as trouble:
            return Health(self._version, trouble=str(trouble))
        return Health(self._version)

    def _is_silent(self) -> bool:
        ages = [informer.age() for informer in self.cache.informers(NODES)]
        return not ages or any(age is None or age > SIGN_OF_LIFE.total_seconds() for age in ages)
