"""Records Kubernetes events, repeated ones as a series and within a rate limit, and an audit line for each."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import structlog
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.rate_limit import Rate, TokenBucket
from watchword.api.resources import EVENTS
from watchword.api.time import rfc3339_micro
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.runtime.clock import Clock
from watchword.runtime.errors import ControllerRuntimeError
from watchword.runtime.logs import redact_text
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import note_refusal
from watchword.runtime.work_queue import DelayQueue

NOTE_LIMIT = 1024
SHORT_LIMIT = 128
EVENT_RETENTION = timedelta(hours=1)
"""How long Kubernetes keeps Events by default: after a restart, a decision that is older is not told again."""

RATE = Rate(5.0, 50)
MOST_WAITING = 1000  # beyond that, new events are dropped
MOST_SERIES = 4096  # that a repetition can still join
SERIES_GAP = timedelta(minutes=6)  # a repetition after this long is a new event
# How soon a growing series is written, later ever more rarely: as often as Kubernetes writes a series that goes on.
SERIES_FLUSH, LONGEST_FLUSH = timedelta(seconds=30), timedelta(minutes=30)
MOST_SIMILAR = 10  # normal events of one kind and reason within the window; the rest are combined into one
SIMILAR_WINDOW = timedelta(minutes=10)


class _Identity(NamedTuple):
    uid: str
    key: ObjectKey
    kind: str
    type: str
    reason: str
    action: str


class _Series(Struct):
    event: Object
    since: datetime
    last_observed: datetime
    last_note: str
    count: int = 1
    written: int = 0
    combined: bool = False  # told by the event of another object: nothing is sent for it


class EventRecorder:
    """Records events without ever waiting: `run` sends them; those over the limit are dropped and counted."""

    def __init__(
        self, client: Client, controller: str, instance: str, *, clock: Clock, random: Random, counts: Metrics
    ) -> None:
        """`controller` is a qualified name (`watchword.io/hub`); `instance` is this process."""
        self._client = client
        self._reporter = {"reportingController": controller, "reportingInstance": _cut(instance, SHORT_LIMIT)}
        self._clock = clock
        self._random = random
        self._counts = counts
        self._series: OrderedDict[_Identity, _Series] = OrderedDict()
        self._similar: dict[tuple[str, str], tuple[datetime, int]] = {}  # since when, and how many
        self._due: OrderedDict[_Identity, None] = OrderedDict()
        self._delay_queue = DelayQueue[_Identity](self._put)
        self._arrived = asyncio.Event()
        self._log: Any = structlog.get_logger("watchword.events")
        self._audit: Any = structlog.get_logger("watchword.audit")

    def normal(self, obj: Mapping[str, Any], reason: str, note: str, *, action: str = "") -> None:
        self._record("Normal", obj, reason, note, action or reason)

    def warning(self, obj: Mapping[str, Any], reason: str, note: str, *, action: str = "") -> None:
        note_refusal(reason)
        self._record("Warning", obj, reason, note, action or reason)

    def refusal(self, obj: Mapping[str, Any], reason: str, note: str) -> None:
        """Record and count that a request was refused: once, however often it is seen."""
        note_refusal(reason)
        if self._record("Warning", obj, reason, note, reason):
            self._counts.denied(reason)

    async def run(self) -> None:
        """Send recorded events, no faster than the limits allow; never returns."""
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(RATE)
        while True:
            while not self._due:
                self._arrived.clear()
                await self._arrived.wait()
            await asyncio.sleep(bucket.reserve(loop.time()))
            if self._due:
                await self._send(self._due.popitem(last=False)[0])

    async def flush(self, patience: timedelta) -> None:
        """Send pending events within a time limit; for the end of a process."""
        try:
            async with asyncio.timeout(patience.total_seconds()):
                while self._due:
                    await self._send(self._due.popitem(last=False)[0])
        except TimeoutError:
            self._log.warning("events were not sent", count=len(self._due))

    def _record(self, type_: str, obj: Mapping[str, Any], reason: str, note: str, action: str) -> bool:
        """Add an event; return whether it is new, and not a repetition within a series."""
        who = _Identity(
            uid_of(obj), ObjectKey.of(obj), str(obj.get("kind") or ""), type_, _short(reason), _short(action)
        )
        now = self._clock.now()
        repeated, known = self._continues(who, now), self._series.get(who)
        if known is None or not repeated or known.last_note != note:
            self._write_audit_line(type_, obj, reason, note)
        if known is not None and known.last_note != note:
            known.since, known.last_note = now, note  # told soon, however long the series is
        if not repeated and self._is_one_of_many(who, now):
            self._series[who] = _Series({}, now, now, note, combined=True)
            who = who._replace(uid="", key=ObjectKey("", ""))
            note = f"(combined from similar events): {note}"
        series = self._series.get(who)
        if series is not None and series.combined and repeated:
            series.last_observed = now
        elif series is not None and self._continues(who, now):
            series.count += 1
            series.last_observed = now
            flush = max(SERIES_FLUSH, min(now - series.since, LONGEST_FLUSH))
            self._delay_queue.add(who, asyncio.get_running_loop().time() + flush.total_seconds())
        elif len(self._due) >= MOST_WAITING:
            self._counts.dropped_event()
        else:
            self._series[who] = _Series(self._event(who, obj, note, now), now, now, note)
            self._put(who)
        if who in self._series:
            self._series.move_to_end(who)
        self._drop_old_series(now)
        return not repeated

    def _drop_old_series(self, now: datetime) -> None:
        while self._series:
            oldest = next(iter(self._series))
            series = self._series[oldest]
            is_waiting = oldest in self._due or (not series.combined and series.written < series.count)
            if len(self._series) <= MOST_SERIES and (is_waiting or self._continues(oldest, now)):
                break
            del self._series[oldest]
            self._delay_queue.drop(oldest)

    def _continues(self, who: _Identity, now: datetime) -> bool:
        """Whether an event repeats one that was recorded a short time ago."""
        series = self._series.get(who)
        return series is not None and now - series.last_observed < SERIES_GAP

    def _is_one_of_many(self, who: _Identity, now: datetime) -> bool:
        """Whether many objects had the same normal event, so that they share one Event."""
        if who.type != "Normal":
            return False
        since, count = self._similar.get((who.kind, who.reason), (now, 0))
        if not timedelta(0) <= now - since < SIMILAR_WINDOW:  # the clock may have been set back
            since, count = now, 0
        self._similar[who.kind, who.reason] = since, count + 1
        return count >= MOST_SIMILAR

    def _write_audit_line(self, type_: str, obj: Mapping[str, Any], reason: str, note: str) -> None:
        """Write one line to the log, also when the event itself is dropped."""
        self._audit.info(
            "decision",
            severity=type_,
            reason=reason,
            object_kind=str(obj.get("kind") or ""),
            object=str(ObjectKey.of(obj)),
            uid=uid_of(obj),
            note=_note(note),
        )

    def _event(self, who: _Identity, obj: Mapping[str, Any], note: str, now: datetime) -> Object:
        about = ObjectKey.of(obj)
        # Events about cluster-scoped objects are stored in the namespace `default`.
        key = ObjectKey(about.namespace or "default", self._name(about.name))
        regarding = {
            "apiVersion": obj.get("apiVersion", ""),
            "kind": who.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": uid_of(obj),
        }
        return EVENTS.manifest(
            key,
            eventTime=rfc3339_micro(now),
            type=who.type,
            reason=who.reason,
            action=who.action,
            note=_note(note),
            regarding={name: value for name, value in regarding.items() if value},
            **self._reporter,
        )

    def _name(self, about: str) -> str:
        stem = re.sub(r"[^a-z0-9-]+", "-", about.lower())[:200].strip("-") or "object"
        return f"{stem}.{self._random.getrandbits(64):016x}"

    def _put(self, who: _Identity) -> None:
        if who in self._series:
            self._due[who] = None
            self._arrived.set()

    async def _send(self, who: _Identity) -> None:
        series = self._series.get(who)
        if series is None:
            return
        note = _note(series.last_note)
        if series.written and note != series.event["note"]:  # only the series of an Event can be changed: tell another
            name = self._name(series.event["regarding"]["name"])
            metadata = {**series.event["metadata"], "name": name}
            instant = rfc3339_micro(series.last_observed)
            series.event = {**series.event, "metadata": metadata, "note": note, "eventTime": instant}
            series.count, series.written = 1, 0
        if series.count == series.written:
            return
        first, series.written = series.written == 0, series.count
        try:
            observed = {"count": series.count, "lastObservedTime": rfc3339_micro(series.last_observed)}
            if first:
                event = series.event if series.count == 1 else series.event | {"series": observed}
                await self._client.create(EVENTS, event)
            else:
                await self._client.patch(EVENTS, ObjectKey.of(series.event), {"series": observed})
        except (KubeError, ControllerRuntimeError) as error:
            self._series.pop(who, None)  # a repetition tries again with a new event
            self._counts.dropped_event()
            self._log.debug("event not sent", error=str(error), reason=who.reason)


def is_news(happened: datetime | None, *, now: datetime) -> bool:
    """Whether a decision of that time is recent enough for an Event; those of older ones have expired."""
    return happened is not None and now - happened < EVENT_RETENTION


def _note(text: str) -> str:
    return _cut(redact_text(text), NOTE_LIMIT)


def _short(text: str) -> str:
    return _cut(text, SHORT_LIMIT)


def _cut(text: str, limit: int) -> str:
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= limit else encoded[: limit - 3].decode(errors="ignore") + "…"
