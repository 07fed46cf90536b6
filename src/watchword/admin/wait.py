"""Waits for a state of one object by watching it, with progress messages and a timeout."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta

from msgspec import Struct, field

from watchword.admin.errors import NotReady
from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import ConditionType
from watchword.api.validation import format_duration
from watchword.discovery.discover import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, Unauthorized
from watchword.kube.watch import WatchOptions, watch_object

WaitCondition = Callable[[Object | None], str]
"""Returns what is still waited for, as text for people; empty when the state is reached."""


class ObjectWaiter(Struct):
    """Watches objects on one server, for at most so long all together, from the first wait on."""

    client: Client
    patience: timedelta = timedelta(minutes=5)
    progress: Progress = field(default=ignore_progress)
    ends_when_refused: bool = False  # raise `Unauthorized` and `Forbidden` instead of waiting for rights
    _ends: float | None = None
    _reported: str = ""

    def left(self) -> timedelta:
        now = asyncio.get_running_loop().time()
        if self._ends is None:
            self._ends = now + self.patience.total_seconds()
        return timedelta(seconds=max(self._ends - now, 0))

    async def until(self, resource: Resource, key: ObjectKey, condition: WaitCondition, *, advice: str) -> Object:
        """Return the object once `condition` is content; `NotReady`, ending with `advice`, when it is not in time.

        When no time is left it looks once: one object that is late does not hide the others.
        """
        left = self.left()
        if not left:
            found = await self.client.find(resource, key)
            missing = condition(found)
            if missing:
                raise self._too_late(missing, advice)
            return found or {}
        self._reported = ""
        states = watch_object(self.client, resource, key, WatchOptions(on_error=self._handle))
        missing = ""
        try:
            async with asyncio.timeout(left.total_seconds()), aclosing(states):
                async for found in states:
                    missing = condition(found)
                    if not missing:
                        return found or {}
                    self._report(missing)
        except TimeoutError as cause:
            raise self._too_late(missing or self._reported or "no answer", advice) from cause
        raise AssertionError("a followed collection never ends")

    def _too_late(self, missing: str, advice: str) -> NotReady:
        return NotReady(f"{missing}, still after {format_duration(self.patience)}: {advice}")

    async def until_gone(self, resource: Resource, key: ObjectKey, *, advice: str) -> None:
        """Return once an object that was deleted is gone; `NotReady`, ending with `advice`, when it is not in time."""

        def describe(found: Object | None) -> str:
            return "" if found is None else f"{resource.kind} {key} is being removed"

        await self.until(resource, key, describe, advice=advice)

    def _handle(self, error: KubeError) -> None:
        if self.ends_when_refused and isinstance(error, Unauthorized | Forbidden):
            raise error
        self._report(f"the request failed ({error}); trying again")

    def _report(self, line: str) -> None:
        if line != self._reported:
            self._reported = line
            self.progress(line)


def validate_applied(work: Object | None) -> str:
    said = next((row for row in conditions_of(work or {}) if row.get("type") == ConditionType.WORK_APPLIED), {})
    generation = int(((work or {}).get("metadata") or {}).get("generation") or 1)
    if int(said.get("observedGeneration") or 0) < generation:
        return "the cluster's agent has not applied the work yet"
    return "" if said.get("status") == "True" else str(said.get("message") or "the work is not applied")
