"""Chooses how a role is mapped to the cluster's group: by access entry where EKS has them, else by `aws-auth`."""

from __future__ import annotations

import asyncio

from msgspec import Struct, field

from watchword.registration.aws_irsa.access_entries import AccessEntries
from watchword.registration.aws_irsa.aws_auth import AwsAuthConfigMap
from watchword.registration.aws_irsa.identity import ClusterIdentity

ACCESS_ENTRY, CONFIG_MAP = "access-entry", "aws-auth"
MODE_TTL = 600.0  # seconds: the authentication mode of an EKS cluster changes once in its life


class RoleMappings(Struct):
    """Maps the roles of clusters on one hub."""

    entries: AccessEntries
    config_map: AwsAuthConfigMap
    _has_entries: bool | None = None
    _asked_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def create(self, identity: ClusterIdentity) -> str:
        """Map a new role; return how."""
        if await self._are_entries_available():
            await self.entries.create(identity)
            return ACCESS_ENTRY
        await self.config_map.create(identity)
        return CONFIG_MAP

    async def repair(self, identity: ClusterIdentity) -> bool:
        """Restore the mapping; return whether anything was written."""
        if await self._are_entries_available():
            return await self.entries.repair(identity)
        return await self.config_map.create(identity)

    async def is_correct(self, identity: ClusterIdentity) -> bool:
        """Whether the role is mapped to the cluster's group and to no other."""
        if await self._are_entries_available():
            return await self.entries.is_correct(identity)
        return await self.config_map.is_correct(identity)

    async def delete(self, identity: ClusterIdentity, mapped_by: str) -> None:
        """Remove the mapping; also the one from before, when the hub has changed its authentication mode since."""
        has_entries = await self._are_entries_available()
        if has_entries:
            await self.entries.delete(identity)
        if not has_entries or mapped_by == CONFIG_MAP:
            await self.config_map.delete(identity)

    async def _are_entries_available(self) -> bool:
        async with self._lock:  # many clusters at once share one request
            now = asyncio.get_running_loop().time()
            if self._has_entries is None or now - self._asked_at >= MODE_TTL:
                self._has_entries = await self.entries.are_available()
                self._asked_at = now
            return self._has_entries
