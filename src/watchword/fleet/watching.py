"""Waiting until one object is as hoped: by watching it, with progress told, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta

import orjson

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.validation import format_duration
from watchword.discovery.waiting import Progress, in_silence
from watchword.fleet.errors import TooLate
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.watch import Change, FollowOptions, Heartbeat, follow

Look = Callable[[Object | None], str]
"""Says what is still waited for, in words for people; empty when all is as hoped."""


@dataclass
class _Talk:
    """Tells each thing once."""

    progress: Progress
    said: str = ""

    def say(self, line: str) -> None:
        if line and line != self.said:
            self.said = line
            self.progress(line)


@dataclass(frozen=True, slots=True)
class Watcher:
    """Watches objects on one server for at most so long."""

    client: Client
    patience: timedelta = timedelta(minutes=5)
    progress: Progress = field(default=in_silence)

    async def until(self, resource: Resource, key: ObjectKey, look: Look, *, advice: str) -> Object:
        """Return the object once `look` is content; `TooLate`, ending with `advice`, when it is not in time."""
        talk = _Talk(self.progress)
        missing = ""
        options = FollowOptions(on_trouble=lambda trouble: talk.say(_describe(trouble)))
        facts = follow(
            self.client, resource, namespace=key.namespace, fields=f"metadata.name={key.name}", options=options
        )
        try:
            async with asyncio.timeout(self.patience.total_seconds()), aclosing(facts):
                async for fact in facts:
                    if isinstance(fact, Heartbeat):
                        continue
                    gone = isinstance(fact, Change) and fact.type == "DELETED"
                    items = [fact.raw] if isinstance(fact, Change) else fact.items
                    found: Object | None = None if gone or not items else orjson.loads(items[0])
                    missing = look(found)
                    if not missing:
                        return found or {}
                    talk.say(missing)
        except TimeoutError as cause:
            waited = format_duration(self.patience)
            raise TooLate(f"{missing or talk.said or 'no answer'}, still after {waited}: {advice}") from cause
        raise AssertionError("a followed collection never ends")


def _describe(trouble: KubeError) -> str:
    return f"the server is in trouble ({trouble}); trying again"
