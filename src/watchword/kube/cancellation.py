"""Telling a task that is asked to stop from one below which something was given up."""

from __future__ import annotations

import asyncio


def is_cancellation_requested() -> bool:
    """Whether `CancelledError` is meant for this task, rather than raised by something below it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
