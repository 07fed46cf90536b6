"""Wherever the agent is killed, the next one reaches the same end state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.work.work_environment import WorkEnvironment

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import APPLIED_MANIFEST_WORKS, CONFIG_MAPS, MANIFEST_WORKS
from watchword.testing.eventually import eventually, is_gone
from watchword.work.applied_work_store import read_applied_resources


@asynccontextmanager
async def mortal(site: WorkEnvironment, cut_after: int | None) -> AsyncIterator[None]:
    """Run an agent that is killed after so many writes, and then another."""
    site.log.clear()
    site.start(cut_after=cut_after)

    async def replace() -> None:
        await site.lines[0].is_cut.wait()
        await site.stop()
        site.start()

    replacing = asyncio.create_task(replace())
    try:
        yield
    finally:
        replacing.cancel()
        await asyncio.gather(replacing, return_exceptions=True)
        await site.stop()


async def live(site: WorkEnvironment, name: str, *, cut_after: int | None = None) -> Object:
    """Apply a work, change it, remove it; return how everything was before it was removed."""
    async with mortal(site, cut_after):
        await site.has(name, site.config_map(f"{name}-1"), site.config_map(f"{name}-2"))
        await site.applied(name)
        await site.changes(name, site.config_map(f"{name}-1", {"b": "2"}), site.config_map(f"{name}-3"))
        await site.applied(name)
        await eventually(
            site.client,
            APPLIED_MANIFEST_WORKS,
            site.record_key(name),
            lambda obj: [one.name for one in read_applied_resources(obj or {})] == [f"{name}-1", f"{name}-3"],
        )
        seen = await state(site, name)
        await site.removes(name)
        return seen


async def state(site: WorkEnvironment, name: str) -> Object:
    """Return everything that matters, without what differs between any two runs."""
    objects = (await site.client.list(CONFIG_MAPS, namespace=site.namespace)).items
    own = [obj for obj in objects if obj["metadata"]["name"].startswith(f"{name}-")]
    record = await site.record(name) or {}
    work = await site.client.get(MANIFEST_WORKS, ObjectKey(site.cluster, name))
    return {
        "objects": {obj["metadata"]["name"].removeprefix(name): obj["data"] for obj in own},
        "owners": [len(obj["metadata"]["ownerReferences"]) for obj in own],
        "record": [(one.name.removeprefix(name), bool(one.uid)) for one in read_applied_resources(record)],
        "finalizers": [work["metadata"]["finalizers"], record["metadata"]["finalizers"]],
        "conditions": [(row["type"], row["status"], row["reason"]) for row in work["status"]["conditions"]],
    }


async def nothing_is_left(site: WorkEnvironment, name: str) -> None:
    await eventually(site.client, APPLIED_MANIFEST_WORKS, site.record_key(name), is_gone)
    objects = (await site.client.list(CONFIG_MAPS, namespace=site.namespace)).items
    assert [obj for obj in objects if obj["metadata"]["name"].startswith(f"{name}-")] == []


async def test_an_agent_killed_after_any_write_is_continued_by_the_next(site: WorkEnvironment) -> None:
    expected = await live(site, "calm")
    await nothing_is_left(site, "calm")
    writes = len(site.writes())
    assert expected["objects"] == {"-1": {"b": "2"}, "-3": {"a": "1"}}

    for number in range(1, writes + 1):
        assert await live(site, f"cut{number}", cut_after=number) == expected, f"killed after write {number}"
        await nothing_is_left(site, f"cut{number}")
