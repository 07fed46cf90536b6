"""Waits until a server decides from the present objects.

kube-apiserver decides about requests from caches of tokens, policies and bindings, which follow the stored objects
without a signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from watchword.kube.errors import Forbidden

PATIENCE = 60.0
Attempt: TypeAlias = Callable[[], Awaitable[object]]


async def until_refused(attempt: Attempt, error: type[Exception] = Forbidden) -> None:
    """Repeat a request until a policy is enforced, or a right or a credential is withdrawn."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await attempt()
            except error:
                return
            await asyncio.sleep(0.1)


async def until_allowed(attempt: Attempt) -> None:
    """Repeat a request until its right is granted."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await attempt()
            except Forbidden:
                await asyncio.sleep(0.1)
            else:
                return
