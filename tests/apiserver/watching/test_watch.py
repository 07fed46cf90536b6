"""Watches: every change once, in order, until the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import orjson
import pytest

from watchword.api import resources
from watchword.api.http import Response
from watchword.apiserver.serving import watch as watching

SECRETS = "/api/v1/namespaces/default/secrets"


async def create(api: Any, name: str, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name, **metadata}}
    created: dict[str, Any] = await api.ask("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    return created


async def opened(api: Any, path: str = SECRETS, **query: str) -> AsyncIterator[bytes]:
    response: Response = await api.send("GET", path, watch="true", **query)
    assert response.stream is not None
    return response.stream


async def events(stream: AsyncIterator[bytes]) -> list[tuple[str, str]]:
    """Read a stream to its end; return type and name of each event."""
    lines = b"".join([chunk async for chunk in stream]).splitlines()
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in map(orjson.loads, lines)]


async def test_a_watch_ends_cleanly_at_its_timeout(api: Any) -> None:
    began = asyncio.get_running_loop().time()

    seen = await events(await opened(api, timeoutSeconds="90"))

    assert seen == []
    assert asyncio.get_running_loop().time() - began == pytest.approx(90)


async def test_without_a_timeout_a_watch_lasts_between_half_an_hour_and_an_hour(api: Any) -> None:
    began = asyncio.get_running_loop().time()

    await events(await opened(api))

    assert 1800 <= asyncio.get_running_loop().time() - began < 3600


async def test_bookmarks_come_every_minute_and_just_before_the_end(api: Any) -> None:
    seen = await events(await opened(api, timeoutSeconds="150", allowWatchBookmarks="true", resourceVersion="1"))

    assert seen == [("BOOKMARK", "")] * 3


@pytest.mark.real_time
@pytest.mark.parametrize("bookmark_every", [0.0104, 0.0003])
async def test_bookmarks_keep_coming_although_timers_ring_a_hair_early(api: Any) -> None:
    stream = await opened(api, timeoutSeconds="60", allowWatchBookmarks="true", resourceVersion="1")

    seen = [await anext(stream) for _ in range(10)]  # uvloop rounds to milliseconds

    assert {orjson.loads(frame)["type"] for frame in seen} == {"BOOKMARK"}
    await cast("AsyncGenerator[bytes]", stream).aclose()


async def test_initial_events_end_with_an_annotated_bookmark(api: Any) -> None:
    await create(api, "a")
    stream = await opened(
        api,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        timeoutSeconds="1",
    )

    first, second = [orjson.loads(line) for line in b"".join([chunk async for chunk in stream]).splitlines()]

    assert (first["type"], second["type"]) == ("ADDED", "BOOKMARK")
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert second["object"]["metadata"]["resourceVersion"] == first["object"]["metadata"]["resourceVersion"]


async def test_a_live_watch_follows_create_update_and_delete(api: Any) -> None:
    stream = await opened(api, resourceVersion="1", timeoutSeconds="60")
    following = asyncio.ensure_future(events(stream))
    await create(api, "a")
    merge = {"Content-Type": "application/merge-patch+json"}
    await api.send("PATCH", f"{SECRETS}/a", {"metadata": {"labels": {"x": "1"}}}, headers=merge)
    await api.send("DELETE", f"{SECRETS}/a")

    assert await following == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_an_object_enters_and_leaves_a_selection(api: Any) -> None:
    stream = await opened(api, resourceVersion="1", timeoutSeconds="60", labelSelector="x=1")
    following = asyncio.ensure_future(events(stream))
    merge = {"Content-Type": "application/merge-patch+json"}
    await create(api, "a")
    for value in ("1", "1", "2"):
        labels = {"x": value, "n": str(asyncio.get_running_loop().time())}
        await api.send(
            "PATCH", f"{SECRETS}/a", {"metadata": {"labels": labels, "annotations": {"v": value}}}, headers=merge
        )
        await asyncio.sleep(1)
    await api.send("DELETE", f"{SECRETS}/a")

    assert await following == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_of_one_namespace_does_not_see_another(api: Any) -> None:
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    await create(api, "before", "other")
    stream = await opened(api, resourceVersion="1", timeoutSeconds="10")
    following = asyncio.ensure_future(events(stream))
    await create(api, "mine")
    await create(api, "theirs", "other")

    assert await following == [("ADDED", "mine")]


@pytest.mark.parametrize(
    "revision", [pytest.param("1", id="forgotten"), pytest.param("1000000", id="from lost data, never given out")]
)
async def test_expired_revision_is_reported_in_the_stream(api: Any, revision: str) -> None:
    await create(api, "a")
    await create(api, "b")
    await api.plane.store.compact(3)

    (line,) = [chunk async for chunk in await opened(api, resourceVersion=revision, timeoutSeconds="5")]

    event = orjson.loads(line)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_two_watchers_are_given_the_very_same_bytes(api: Any) -> None:
    streams = [await opened(api, resourceVersion="1", timeoutSeconds="5") for _ in range(2)]
    following = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await asyncio.sleep(0)
    await create(api, "a")

    first, second = await asyncio.gather(*following)

    assert first is second
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined] # an async generator


async def test_a_watcher_that_falls_behind_is_cut_off_after_what_it_has(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "QUEUE_FRAMES", 3)
    stream = await opened(api, resourceVersion="1", timeoutSeconds="600")
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for number in range(10):
        await create(api, f"s{number}")

    seen = [*(await first).splitlines(), *b"".join([chunk async for chunk in stream]).splitlines()]

    assert [orjson.loads(line)["object"]["metadata"]["name"] for line in seen] == ["s0", "s1", "s2"]


async def test_watcher_that_cannot_read_an_object_is_cut_off_and_no_other(api: Any) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
    selective = await opened(api, resourceVersion="1", timeoutSeconds="60", labelSelector="a=b")
    whole = await opened(api, resourceVersion="1", timeoutSeconds="60")
    following = [asyncio.create_task(events(stream)) for stream in (selective, whole)]
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()

    await api.store_unchecked(
        resources.SECRETS, {"metadata": {"name": "odd", "namespace": "default", "labels": {"a": 1}}}
    )
    await following[0]

    assert asyncio.get_running_loop().time() == pytest.approx(began)
    assert await following[1] == [("ADDED", "odd")]


async def test_an_abandoned_stream_leaves_nothing_behind(api: Any) -> None:
    stream = await opened(api, resourceVersion="1")
    broadcaster = api.plane._server.resources.broadcaster
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await create(api, "a")
    await first
    assert broadcaster.count() == 1

    await stream.aclose()  # type: ignore[attr-defined] # an async generator

    assert broadcaster.count() == 0


async def test_changes_between_the_response_and_its_processing_are_not_lost(api: Any) -> None:
    stream = await opened(api, resourceVersion="1", timeoutSeconds="5")
    await create(api, "early")

    assert await events(stream) == [("ADDED", "early")]


async def test_a_waiting_watch_pushes_and_a_slow_client_is_given_the_rest_by_the_stream(api: Any) -> None:
    response: Response = await api.send("GET", SECRETS, watch="true", resourceVersion="1", timeoutSeconds="600")
    assert response.stream is not None
    assert response.attach is not None
    received: list[bytes] = []
    is_reading = True

    def push(chunk: bytes) -> bool:
        received.extend([chunk] if is_reading else [])
        return is_reading

    response.attach(push)
    waiting = asyncio.ensure_future(anext(response.stream))
    await asyncio.sleep(0)
    for name in ("a", "b"):
        await create(api, name)
    await asyncio.sleep(0)
    assert not waiting.done()

    is_reading = False
    await create(api, "c")
    received.append(await waiting)
    await create(api, "d")
    received.append(await anext(response.stream))
    is_reading, waiting = True, asyncio.ensure_future(anext(response.stream))
    await asyncio.sleep(0)
    await create(api, "e")
    await asyncio.sleep(0)

    assert not waiting.done()
    names = [orjson.loads(line)["object"]["metadata"]["name"] for line in b"".join(received).splitlines()]
    assert names == ["a", "b", "c", "d", "e"]
    waiting.cancel()
