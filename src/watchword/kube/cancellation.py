"""Tells cancellation of the current task from cancellation of something it awaits."""

from __future__ import annotations

import asyncio


def is_cancellation_requested() -> bool:
    """Whether `CancelledError` was requested for this task, rather than raised by something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
