"""Knows which resource a kind is on the managed cluster, from the cluster's own discovery documents."""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Struct, field

from watchword.api.meta import Resource
from watchword.kube.client import Client
from watchword.kube.errors import MalformedResponse, NotFound

MIN_REFRESH_SECONDS = 1.0
"""Seconds within which a document is not asked for again: many works may miss the same kind at once."""


class _Entry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _Document(msgspec.Struct):
    resources: list[_Entry] | None = None


class _Known(Struct, frozen=True):
    resources: tuple[Resource, ...]
    read_at: float


class RestMapper(Struct):
    """One document for each group and version that a work has used, read again when it lacks what is looked for."""

    client: Client
    _documents: dict[str, _Known] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, or None while the cluster does not serve it."""
        return await self._find(api_version, lambda one: one.kind == kind)

    async def resource(self, group: str, version: str, plural: str) -> Resource | None:
        return await self._find(f"{group}/{version}" if group else version, lambda one: one.plural == plural)

    async def _find(self, api_version: str, is_wanted: Callable[[Resource], bool]) -> Resource | None:
        known = self._documents.get(api_version)
        found = next(filter(is_wanted, known.resources), None) if known else None
        return found or next(filter(is_wanted, (await self._read(api_version)).resources), None)

    def forget(self, resource: Resource) -> None:
        """Drop the discovery document of a resource's group: the server answers its path with 404."""
        self._documents.pop(resource.api_version, None)

    async def _read(self, api_version: str) -> _Known:
        async with self._reading:
            now = asyncio.get_running_loop().time()
            known = self._documents.get(api_version)
            if known is None or now - known.read_at > MIN_REFRESH_SECONDS:
                known = self._documents[api_version] = _Known(await self._fetch(api_version), now)
            return known

    async def _fetch(self, api_version: str) -> tuple[Resource, ...]:
        group, _, version = api_version.rpartition("/")
        try:
            raw = await self.client.read(f"/apis/{api_version}" if group else f"/api/{version}")
            document = msgspec.json.decode(raw, type=_Document)
        except NotFound:
            return ()
        except msgspec.MsgspecError as cause:
            raise MalformedResponse(f"the discovery document of {api_version} cannot be read") from cause
        return tuple(
            Resource(group, version, entry.name, entry.kind, namespaced=entry.namespaced)
            for entry in document.resources or ()
            if "/" not in entry.name
        )
