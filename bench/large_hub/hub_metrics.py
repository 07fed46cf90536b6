"""Reads from a hub's metrics whether it leads and whether a key is left to reconcile."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.error
import urllib.request

QUEUED = re.compile(r'^watchword_queue_keys\{.*state="(?:ready|in_flight)".*\} (\S+)$', re.MULTILINE)
LEADING = re.compile(r"^watchword_leading (\S+)$", re.MULTILINE)
POLL_SECONDS = 0.25
SETTLED = "/metrics?name[]=watchword_queue_keys&name[]=watchword_leading"  # the whole page costs a large hub 0.1 s


async def read_page(port: int, path: str) -> str:
    """Return a page of the hub's health endpoints; empty while it does not answer."""

    def fetch() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return str(answer.read(), "utf-8")
        except (OSError, urllib.error.URLError):
            return ""

    return await asyncio.to_thread(fetch)


def is_leading(metrics: str) -> bool:
    """Whether the process holds the lease."""
    found = LEADING.search(metrics)
    return found is not None and float(found[1]) == 1.0


def keys_left(metrics: str) -> int:
    """Return how many keys are ready or in flight, over all controllers."""
    return sum(int(float(found)) for found in QUEUED.findall(metrics))


async def wait_until_settled(port: int, limit: float) -> None:
    """Wait until a hub leads and has reconciled every key."""
    async with asyncio.timeout(limit):
        while True:
            metrics = await read_page(port, SETTLED)
            if is_leading(metrics) and not keys_left(metrics):
                return
            await asyncio.sleep(POLL_SECONDS)


async def wait_until_ready(port: int, limit: float) -> None:
    """Wait until a hub's caches are synced, whether it leads or not."""
    async with asyncio.timeout(limit):
        while not await read_page(port, "/readyz"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(POLL_SECONDS)


async def scrape_seconds(port: int) -> float:
    """Return how long a hub takes for one page of metrics."""
    began = time.monotonic()
    await read_page(port, "/metrics")
    return time.monotonic() - began
