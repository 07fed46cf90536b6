"""Following a collection through everything a server may do to a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import CredentialReplaced, KubeError, Unreachable
from watchword.kube.watch import Bookmark, ObjectChange, Snapshot, WatchOptions, WatchUpdate, list_and_watch

Step = Callable[[Request], Response]


def secret(name: str, version: int) -> dict[str, Any]:
    return {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": str(version)}}


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if end else {}
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def error(code: int, reason: str) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "no"})


def watching(*chunks: bytes, then_silent: bool = False, ended_by: KubeError | None = None) -> Step:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if ended_by is not None:
            raise ended_by
        if then_silent:
            await asyncio.Event().wait()

    return lambda _: Response(200, stream=stream())


def refusing(code: int, **details: Any) -> Step:
    return lambda _: Response(code, body=orjson.dumps({"kind": "Status", "code": code, "details": details}))


def listing(version: int, *items: dict[str, Any]) -> Step:
    page = {"metadata": {"resourceVersion": str(version)}, "items": list(items)}
    return lambda _: Response(200, body=orjson.dumps(page))


class Script:
    """A server that responds by a list of steps and records the requests."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        return self.steps.pop(0)(request) if self.steps else watching(then_silent=True)(request)

    def versions(self) -> list[str]:
        return [request.parameter("resourceVersion") for request in self.asked]


async def facts(script: Callable[[Request], Awaitable[Response]], count: int, **options: Any) -> list[WatchUpdate]:
    settings = WatchOptions(random=Random(1), **options)
    found: list[WatchUpdate] = []
    async with aclosing(list_and_watch(Client.from_handler(script), SECRETS, options=settings)) as stream:
        async for fact in stream:
            found.append(replace(fact, items=list(fact.items)) if isinstance(fact, Snapshot) else fact)
            if len(found) == count:
                break
    return found


def raw(obj: dict[str, Any]) -> bytes:
    return orjson.dumps(obj)


async def test_the_initial_events_become_one_snapshot_and_the_rest_changes() -> None:
    a, b, newer = secret("a", 3), secret("b", 4), secret("a", 9)
    script = Script(watching(line("ADDED", a) + line("ADDED", b), bookmark(7, end=True), line("MODIFIED", newer)))

    found = await facts(script, 2)

    assert found == [Snapshot([raw(a), raw(b)], "7"), ObjectChange("MODIFIED", raw(newer), "9")]
    assert script.asked[0].parameter("sendInitialEvents") == "true"


async def test_changes_that_overtake_the_end_of_the_initial_events_are_in_the_snapshot() -> None:
    newer = secret("a", 8)
    events = [
        line("ADDED", secret("a", 3)),
        line("ADDED", secret("b", 4)),
        line("MODIFIED", newer),
        line("DELETED", secret("b", 9)),
        bookmark(9, end=True),
    ]

    assert await facts(Script(watching(*events)), 1) == [Snapshot([raw(newer)], "9")]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "listed"])
async def test_snapshot_keeps_of_each_object_what_its_reader_needs(streamed: bool) -> None:  # noqa: FBT001 - a row
    a = secret("a", 3)
    answer = watching(line("ADDED", a), bookmark(7, end=True)) if streamed else listing(7, a)

    found = await facts(Script(answer), 1, send_initial_events=streamed, reduce=lambda _: b"{}")

    assert found == [Snapshot([b"{}"], "7")]


async def arrivals(instants: list[float], *, collect: bool) -> list[tuple[float, str]]:
    """Watch changes that the server sends at these instants; return when each was received, and its version."""
    loop, sent = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    async def stream() -> AsyncIterator[bytes]:
        yield bookmark(1, end=True)
        while True:
            yield await sent.get()

    def send(instant: float) -> None:
        for version, due in enumerate(instants, 2):
            if due == instant:
                sent.put_nowait(line("MODIFIED", secret("a", version)))

    for instant in set(instants):
        loop.call_at(instant, send, instant)
    script = Script(lambda _: Response(200, stream=stream()))
    options = WatchOptions(random=Random(1), collect=frozenset({SECRETS} if collect else ()))
    found: list[tuple[float, str]] = []
    async with aclosing(list_and_watch(Client.from_handler(script), SECRETS, options=options)) as updates:
        async for update in updates:
            if isinstance(update, ObjectChange):
                found.append((round(loop.time(), 3), update.resource_version))
                if len(found) == len(instants):
                    break
    return found


@pytest.mark.parametrize(
    ("collect", "received"),
    [
        pytest.param(True, [10, 10.1, 10.35, 10.35, 10.35, 30], id="of a kind that is collected"),
        pytest.param(False, [10, 10.1, 10.15, 10.2, 10.3, 30], id="of any other kind"),
    ],
)
async def test_frequent_events_are_handled_together_and_rare_ones_at_once(
    collect: bool,  # noqa: FBT001 - a row
    received: list[float],
) -> None:
    found = await arrivals([10, 10.1, 10.15, 10.2, 10.3, 30], collect=collect)

    assert [instant for instant, _ in found] == received
    assert [version for _, version in found] == ["2", "3", "4", "5", "6", "7"]


async def test_events_that_have_arrived_are_not_paused_for() -> None:
    found = await arrivals([10.0] + [10.1] * 100, collect=True)

    assert {instant for instant, _ in found[1:]} == {10.1, 10.35}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(422, id="the feature is off"),
        pytest.param(400, id="the parameter is unknown"),
        pytest.param(500, id="its etcd is too old for it"),
    ],
)
async def test_a_server_that_refuses_initial_events_is_listed_and_watched(code: int) -> None:
    a, b = secret("a", 3), secret("b", 6)
    script = Script(refusing(code), listing(5, a), watching(line("ADDED", b)))
    problems: list[KubeError] = []

    assert await facts(script, 2, on_error=problems.append) == [
        Snapshot([raw(a)], "5"),
        ObjectChange("ADDED", raw(b), "6"),
    ]
    assert script.versions() == ["", "", "5"]
    assert problems == []


async def test_a_server_that_ignores_initial_events_is_listed_and_watched() -> None:
    script = Script(watching(line("ADDED", secret("a", 3)), then_silent=True), listing(5, secret("a", 3)))

    assert await facts(script, 1) == [Snapshot([raw(secret("a", 3))], "5")]


def given_up(_: Request) -> Response:
    raise asyncio.CancelledError  # as when connections are closed while a name is being looked up


async def test_a_request_that_was_given_up_below_is_made_again() -> None:
    problems: list[KubeError] = []
    script = Script(given_up, watching(bookmark(5, end=True)))

    assert await facts(script, 1, on_error=problems.append) == [Snapshot([], "5")]
    assert [str(problem) for problem in problems] == ["the request was cancelled when its connection was closed"]


async def test_watch_that_is_cancelled_ends() -> None:
    asked = asyncio.Event()

    def silent(request: Request) -> Response:
        asked.set()
        return watching(then_silent=True)(request)

    following = asyncio.create_task(facts(Script(silent), 1))
    await asked.wait()

    following.cancel()
    await asyncio.wait([following])

    assert following.cancelled()


async def test_a_revision_that_is_gone_leads_to_a_new_snapshot() -> None:
    script = Script(watching(bookmark(5, end=True)), watching(error(410, "Expired")), watching(bookmark(90, end=True)))

    assert await facts(script, 2) == [Snapshot([], "5"), Snapshot([], "90")]


async def test_a_lost_connection_is_resumed_where_it_broke() -> None:
    added = line("ADDED", secret("b", 8))
    script = Script(watching(bookmark(5, end=True), line("ADDED", secret("a", 6)), added[:20]), watching(added))
    problems: list[KubeError] = []

    found = await facts(script, 3, on_error=problems.append)

    assert [fact.resource_version for fact in found] == ["5", "6", "8"]
    assert script.versions() == ["", "6"]
    assert "cut in the middle" in str(problems[0])


async def test_watch_is_resumed_at_once_with_another_credential() -> None:
    replaced = CredentialReplaced("the credential was replaced")
    script = Script(watching(bookmark(5, end=True), ended_by=replaced), watching(line("ADDED", secret("a", 6))))
    problems: list[KubeError] = []
    started = asyncio.get_running_loop().time()

    found = await facts(script, 2, on_error=problems.append)

    assert [fact.resource_version for fact in found] == ["5", "6"]
    assert script.versions() == ["", "5"]
    assert asyncio.get_running_loop().time() == started
    assert problems == []


async def test_a_silent_watch_is_reconnected_and_twice_silent_listed_again() -> None:
    start = asyncio.get_running_loop().time()
    silent = watching(then_silent=True)
    script = Script(watching(bookmark(5, end=True), then_silent=True), silent, watching(bookmark(7, end=True)))

    found = await facts(script, 2)

    assert script.versions() == ["", "5", ""]
    assert found[-1] == Snapshot([], "7")
    assert asyncio.get_running_loop().time() - start >= 180


def resting(*chunks: bytes) -> Step:
    """Watch a kind without changes: the server sends nothing, and ends the watch at its timeout."""

    async def stream(seconds: int) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        await asyncio.sleep(seconds)

    return lambda request: Response(200, stream=stream(int(request.parameter("timeoutSeconds"))))


async def test_a_kind_at_rest_costs_one_request_in_each_session() -> None:
    start, problems = asyncio.get_running_loop().time(), list[KubeError]()
    once = bookmark(5)  # kube-apiserver sends its revision once, and no more
    script = Script(resting(bookmark(5, end=True), once), *[resting(once)] * 10, resting(bookmark(7)))

    await facts(script, 13, on_error=problems.append)

    assert script.versions() == ["", *["5"] * 11]
    assert asyncio.get_running_loop().time() - start >= 11 * 300
    assert problems == []


async def test_a_server_that_went_back_in_time_is_listed_again() -> None:
    script = Script(watching(bookmark(50, end=True), bookmark(9)), watching(bookmark(9, end=True)))

    assert await facts(script, 2) == [Snapshot([], "50"), Snapshot([], "9")]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "listed"])
async def test_restored_server_delivers_a_revision_that_it_gave_before(streamed: bool) -> None:  # noqa: FBT001 - a row
    before, after = line("ADDED", secret("a", 6)), line("ADDED", secret("b", 6))
    empty = watching(bookmark(5, end=True)) if streamed else listing(5)
    script = Script(empty, watching(before), watching(error(410, "Expired")), empty, watching(after))

    found = await facts(script, 4, send_initial_events=streamed)

    assert found[1:] == [
        ObjectChange("ADDED", raw(secret("a", 6)), "6"),
        Snapshot([], "5"),
        ObjectChange("ADDED", raw(secret("b", 6)), "6"),
    ]


async def test_repeated_event_is_delivered_once() -> None:
    added = line("ADDED", secret("a", 6))
    script = Script(watching(bookmark(5, end=True), added, added, bookmark(7)))

    assert (await facts(script, 3))[1:] == [ObjectChange("ADDED", raw(secret("a", 6)), "6"), Bookmark("7")]


async def test_refusals_are_reported_and_waited_out() -> None:
    script = Script(refusing(403), refusing(401), watching(bookmark(5, end=True)))
    problems: list[KubeError] = []

    assert await facts(script, 1, on_error=problems.append) == [Snapshot([], "5")]
    assert [type(problem).__name__ for problem in problems] == ["Forbidden", "Unauthorized"]


async def test_a_collection_that_may_be_listed_and_not_watched_is_polled() -> None:
    problems, asked, start = list[KubeError](), list[Request](), asyncio.get_running_loop().time()

    async def server(request: Request) -> Response:
        asked.append(request)
        if request.parameter("watch"):
            return refusing(403)(request)
        return listing(len(asked), secret("a", len(asked)))(request)

    found = await facts(server, 6, on_error=problems.append)

    assert all(isinstance(fact, Snapshot) for fact in found)
    assert asyncio.get_running_loop().time() - start >= 5 * 8
    assert len(asked) <= 3 + 6 + 7  # streams that were refused, lists, and watches that were refused
    assert len(problems) <= 6


async def test_a_collection_that_was_polled_is_watched_once_that_is_allowed() -> None:
    polled = [refusing(403), refusing(403), refusing(403), listing(5), refusing(403), refusing(403), listing(6)]
    script = Script(*polled, watching(bookmark(7)))

    assert await facts(script, 3) == [Snapshot([], "5"), Snapshot([], "6"), Bookmark("7")]


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    script = Script(watching(bookmark(5, end=True)), *[watching() for _ in range(8)], watching(bookmark(6)))
    start = asyncio.get_running_loop().time()

    await facts(script, 2)

    assert asyncio.get_running_loop().time() - start > 10


async def test_a_watch_that_breaks_after_hours_without_an_event_is_resumed_at_once() -> None:
    async def stream() -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        broke_at.append(asyncio.get_running_loop().time())
        yield b""
        raise Unreachable("the connection broke", maybe_processed=False)

    broke_at: list[float] = []
    script = Script(
        watching(bookmark(5, end=True)),
        *[watching() for _ in range(20)],
        lambda _: Response(200, stream=stream()),
        watching(bookmark(6)),
    )

    await facts(script, 2, stall_after=7200.0)

    assert asyncio.get_running_loop().time() - broke_at[0] < 1
