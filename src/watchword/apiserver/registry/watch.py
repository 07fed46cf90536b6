"""The verb watch: decides where a watch starts and what it shows first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from watchword.apiserver.errors import expired, quote
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.matcher import Matcher, matcher_for
from watchword.apiserver.registry.object_storage import ObjectStorage, bucket_of
from watchword.apiserver.registry.options import ListOptions
from watchword.apiserver.registry.read import Read, parse_revision
from watchword.apiserver.store.model import Record
from watchword.apiserver.watching.broadcaster import WatchBroadcaster
from watchword.apiserver.watching.event_encoder import EventEncoder, ObjectTransform
from watchword.apiserver.watching.watch import BOOKMARK_EVERY, Watch, WatchPlan, error_stream

MIN_SECONDS = 1800.0
Fraction = Callable[[], float]
"""A random number in [0, 1): spreads the ends of watches, so that clients do not all return at once."""


class WatchVerb(Struct, frozen=True):
    """Opens streams."""

    objects: ObjectStorage
    read: Read
    broadcaster: WatchBroadcaster
    fraction: Fraction
    bookmark_every: float = BOOKMARK_EVERY

    async def __call__(
        self, kind: ResourceKind, namespace: str, options: ListOptions, show: ObjectTransform | None
    ) -> AsyncIterator[bytes]:
        """Return the stream of one watch; 400 for selectors the kind does not know."""
        matcher = matcher_for(kind, self.objects, namespace, options.labels, options.fields)
        if options.resource_version:
            _require_revision(options.resource_version)
        try:
            plan = await self._plan(options, matcher)
        except ApiError as refusal:
            return error_stream(refusal)
        return Watch(plan, matcher, EventEncoder(kind, self.objects, show), self.broadcaster).stream()

    async def _plan(self, options: ListOptions, matcher: Matcher) -> WatchPlan:
        seconds = float(options.timeout_seconds or MIN_SECONDS * (1 + self.fraction()))
        wanted = 0 if options.resource_version in {"", "0"} else parse_revision(options.resource_version)
        current = self.objects.store.revision
        if options.send_initial_events:
            await self.read.wait_for(wanted)
            current = self.objects.store.revision
        elif wanted > current:
            # Every revision handed out was committed here: one from the future comes from lost data.
            raise expired(f"too old resource version: {wanted} ({current})")
        if options.send_initial_events or (not wanted and options.send_initial_events is None):
            initial = self._present(matcher)
            return WatchPlan(current, initial, options.bookmarks, options.bookmarks, seconds, self.bookmark_every)
        start = wanted or current
        return WatchPlan(
            start,
            None,
            options.bookmarks,
            initial_events_end=False,
            seconds=seconds,
            bookmark_every=self.bookmark_every,
        )

    def _present(self, matcher: Matcher) -> list[Record]:
        records = self.objects.store.records(bucket_of(matcher.kind), matcher.namespace)
        return [record for record in records if matcher.matches(record)] if matcher.selective else records


def _require_revision(text: str) -> None:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        # As kube-apiserver: the one case in which a malformed parameter is a 500.
        detail = f"Invalid value: {quote(text)}: strconv.ParseUint: parsing {quote(text)}: invalid syntax"
        raise ApiError(500, "", f"resourceVersion: {detail}")
