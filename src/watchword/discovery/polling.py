"""Waiting for a server that is not there yet: bounded, and never silent about it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias, TypeVar

from msgspec import Struct

from watchword.api.validation import format_duration

T = TypeVar("T")
Progress: TypeAlias = Callable[[str], None]
"""Receives progress messages for people."""


def ignore_progress(_: str) -> None:
    """Ignore progress."""


class PollOptions(Struct, frozen=True):
    """How long to wait altogether, and at most between two looks; the first pauses are shorter."""

    total: timedelta = timedelta(minutes=5)
    pause: timedelta = timedelta(seconds=5)
    first_pause: timedelta = timedelta(milliseconds=250)


class PollAgain(Exception):
    """Raised by an attempt that is worth repeating; `then` is raised when time is up."""

    def __init__(self, what: str, then: Exception) -> None:
        super().__init__(what)
        self.then = then


async def poll_until(look: Callable[[], Awaitable[T]], poll_options: PollOptions, progress: Progress) -> T:
    """Look now and then until something is seen; after the last look its reason is raised."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + poll_options.total.total_seconds()
    pause = poll_options.first_pause.total_seconds() / 2
    said = ""
    while True:
        try:
            return await look()
        except PollAgain as reason:
            pause = min(pause * 2, poll_options.pause.total_seconds())
            if loop.time() + pause > ends:
                raise reason.then from reason
            if str(reason) != said:  # the same error is reported once
                said = str(reason)
                left = timedelta(seconds=int(ends - loop.time()))
                progress(f"{said}; trying again for up to {format_duration(left)}")
            await asyncio.sleep(pause)
