"""The verbs get and list, at the requested revision."""

from __future__ import annotations

import asyncio
from bisect import bisect_left

from msgspec import Struct

from watchword.api.meta import ObjectKey
from watchword.apiserver.errors import bad_request, expired, not_found, quote, too_large_resource_version
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.continue_token import LATEST, ContinueToken, decode_continue_token
from watchword.apiserver.registry.matcher import Matcher, matcher_for
from watchword.apiserver.registry.object_storage import ObjectStorage, bucket_of
from watchword.apiserver.registry.options import ListOptions
from watchword.apiserver.store.errors import Compacted
from watchword.apiserver.store.model import Record, path_of

PATIENCE = 3.0
"""Seconds to wait for a revision that is not here yet."""
_GLANCE = 0.05

_LIST_EXPIRED = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


class ListPage(Struct, frozen=True):
    """One response to a list."""

    records: list[Record]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class Read(Struct, frozen=True):
    """Reads committed state."""

    objects: ObjectStorage

    async def get(self, kind: ResourceKind, key: ObjectKey, resource_version: str = "") -> Record:
        """Return one record; 404 when it is not there."""
        if resource_version not in {"", "0"}:
            if not is_revision(resource_version):
                raise ApiError(500, "", f"resourceVersion: {_unreadable(resource_version)}")
            await self.wait_for(int(resource_version))
        record = self.objects.store.get(bucket_of(kind), path_of(key))
        if record is None:
            raise not_found(kind.resource, key.name)
        return record

    async def page(self, kind: ResourceKind, namespace: str, options: ListOptions) -> ListPage:
        """Return one page of records."""
        matcher = matcher_for(kind, self.objects, namespace, options.labels, options.fields)
        start, revision = await self._start(options)
        store = self.objects.store
        if revision is None:
            revision, records = store.revision, store.records(bucket_of(kind), namespace)
        else:
            records = self._as_of(kind, namespace, revision, start)
        # As kube-apiserver: "any revision" is served from a cache that does not page.
        limit = 0 if options.resource_version == "0" and not options.continue_token else options.limit
        return _page(records, revision, start, limit, matcher)

    async def wait_for(self, revision: int) -> None:
        """Return once the revision is committed; 504 when it does not come."""
        store, deadline = self.objects.store, asyncio.get_running_loop().time() + PATIENCE
        while store.revision < revision:
            if asyncio.get_running_loop().time() >= deadline:
                raise too_large_resource_version(revision, store.revision)
            await asyncio.sleep(_GLANCE)

    async def _start(self, options: ListOptions) -> tuple[str, int | None]:
        """Return the first path of the page and the exact revision, None for the latest."""
        if options.continue_token:
            if options.resource_version not in {"", "0"}:
                raise bad_request("specifying resource version is not allowed when using continue")
            place = decode_continue_token(options.continue_token)
            return place.start, None if place.revision == LATEST else place.revision
        if options.resource_version in {"", "0"}:
            return "", None
        revision = parse_revision(options.resource_version)
        await self.wait_for(revision)
        exact = options.match == "Exact" or (not options.match and options.limit > 0)
        return "", revision if exact else None

    def _as_of(self, kind: ResourceKind, namespace: str, revision: int, start: str) -> list[Record]:
        try:
            return self.objects.store.snapshot(bucket_of(kind), revision, namespace)
        except Compacted:
            if not start:
                raise expired(_LIST_EXPIRED) from None
            raise _inconsistent_continue(start) from None


def parse_revision(text: str) -> int:
    """Read a resourceVersion; 400 when it is no decimal number."""
    if not is_revision(text):
        raise bad_request(f"invalid resource version: resourceVersion: {_unreadable(text)}")
    return int(text)


def is_revision(text: str) -> bool:
    """Whether a text is a decimal number that a revision can be."""
    return text.isascii() and text.isdigit() and len(text) < 20


def _unreadable(text: str) -> str:
    return f"Invalid value: {quote(text)}: strconv.ParseUint: parsing {quote(text)}: invalid syntax"


def _inconsistent_continue(start: str) -> ApiError:
    refusal = expired(_CONTINUE_EXPIRED)
    refusal.continue_token = ContinueToken(LATEST, start).encode()
    return refusal


def _page(records: list[Record], revision: int, start: str, limit: int, matcher: Matcher) -> ListPage:
    first = bisect_left(records, start, key=lambda record: record.path) if start else 0
    if not limit and not matcher.selective:
        return ListPage(records[first:] if first else records, revision)
    taken: list[Record] = []
    position = first
    while position < len(records) and not (limit and len(taken) >= limit):
        if not matcher.selective or matcher.matches(records[position]):
            taken.append(records[position])
        position += 1
    if position >= len(records):
        return ListPage(taken, revision)
    token = ContinueToken(revision, records[position - 1].path + "\0").encode()
    return ListPage(taken, revision, token, None if matcher.selective else len(records) - position)
