"""What one person may see: asked of the API server right by right, then applied to objects and their rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from watchword.api.meta import ObjectKey
from watchword.dashboard.sources import DASHBOARD_SOURCES, Source, SourcedObject
from watchword.kube.access_reviews import UserIdentity, may
from watchword.kube.client import Client

REVIEWS_AT_ONCE = 16
NOT_ALLOWED = "you may not list them"
PARTLY = "you may see those of {count} only"


class Visibility(Struct, frozen=True):
    """The sources that one person sees, wholly or in part; None as parts means wholly."""

    parts: Mapping[Source, frozenset[str] | None] = field(default_factory=dict)
    everything: bool = False

    def parts_of(self, source: Source) -> frozenset[str] | None:
        """Return the parts of a source that may be seen, None for all of it."""
        return None if self.everything else self.parts.get(source, frozenset())

    def sees(self, source: Source, part: str = "") -> bool:
        """Whether what a source holds may be seen: in a namespace, of a cluster, or at all where it has no parts."""
        parts = self.parts_of(source)
        return parts is None or part in parts

    def extended(self, further: Visibility) -> Visibility | None:
        """Return these rights with those on further places; None when a whole kind was granted or withdrawn."""
        if any((further.parts_of(source) is None) != (parts is None) for source, parts in self.parts.items()):
            return None
        both = {
            source: None if parts is None else parts | (further.parts_of(source) or frozenset())
            for source, parts in self.parts.items()
        }
        return self if both == self.parts else Visibility(both)

    def explain(self, unseen: Mapping[str, str]) -> dict[str, str]:
        """Return what is left out and why, what the dashboard itself cannot read included."""
        if self.everything:
            return dict(unseen)
        found = dict(unseen)
        for source in DASHBOARD_SOURCES:
            parts = self.parts.get(source, frozenset())
            if parts is not None and source.name not in found:
                noun = "cluster" if len(parts) == 1 else "clusters"
                found[source.name] = PARTLY.format(count=f"{len(parts)} {noun}") if parts else NOT_ALLOWED
        return found


EVERYTHING = Visibility(everything=True)


async def review_visibility(client: Client, who: UserIdentity, places: Iterable[str]) -> Visibility:
    """Ask what a person may list; where a whole kind is refused, ask for each cluster and its namespace."""
    limit, known = asyncio.Semaphore(REVIEWS_AT_ONCE), sorted(set(places))

    async def ask(source: Source, part: str = "") -> bool:
        async with limit:
            return await may(client, who, source.access(part))

    async def parts(source: Source) -> frozenset[str] | None:
        if await ask(source):
            return None
        if not source.divisible:
            return frozenset()
        allowed = await asyncio.gather(*(ask(source, part) for part in known))
        return frozenset(part for part, seen in zip(known, allowed, strict=True) if seen)

    found = await asyncio.gather(*(parts(source) for source in DASHBOARD_SOURCES))
    return Visibility(dict(zip(DASHBOARD_SOURCES, found, strict=True)))


def limit_objects(objects: Iterable[SourcedObject], seen: Visibility) -> Iterator[SourcedObject]:
    """Yield only what a person may see."""
    for source, obj in objects:
        if seen.sees(source, source.part(ObjectKey.of(obj))):
            yield source, obj
