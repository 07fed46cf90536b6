"""Knows which resource a kind is on the managed cluster, from the cluster's own discovery documents."""

import asyncio

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
        found = _of_kind(self._documents.get(api_version), kind)
        if found is None:
            found = _of_kind(await self._read(api_version), kind)
        return found

    async def resource(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource of that name, or None while the cluster does not serve it."""
        api_version = f"{group}/{version}" if group else version
        found = _named(self._documents.get(api_version), plural)
        if found is None:
            found = _named(await self._read(api_version), plural)
        return found

    def forget(self, resource: Resource) -> None:
        """Doubt what is known of a resource's group: the server denies its path."""
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


def _of_kind(known: _Known | None, kind: str) -> Resource | None:
    return next((one for one in known.resources if one.kind == kind), None) if known else None


def _named(known: _Known | None, plural: str) -> Resource | None:
    return next((one for one in known.resources if one.plural == plural), None) if known else None
