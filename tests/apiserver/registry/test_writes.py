"""Writes under concurrency, on the durable store: nothing lost, nothing torn."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from watchword.api.http import Request
from watchword.apiserver.access.config import AccessControl
from watchword.apiserver.access.rbac import AuthorizationDecision
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.serving.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.sqlite import SqliteStore

COLLECTION = "/api/v1/namespaces/default/configmaps"
MERGE = (("Content-Type", "application/merge-patch+json"),)


class AllowAll:
    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


async def anybody(_: HandlerRequest) -> User:
    return User("tester")


async def ask(plane: ControlPlane, method: str, path: str, body: Any, headers: Any = ()) -> tuple[int, Any]:
    answer = await plane.handle(Request(method, path, headers=headers, body=orjson.dumps(body)))
    return answer.status, orjson.loads(answer.body)


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    store = SqliteStore(tmp_path / "state.db")
    plane = ControlPlane(store, lambda: datetime.now(UTC), lambda _: AccessControl(anybody, AllowAll()))
    await plane.start()
    await ask(plane, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await ask(plane, "POST", COLLECTION, {"metadata": {"name": "a"}})
    yield plane
    await plane.stop()


@pytest.mark.real_time
async def test_concurrent_patches_of_one_object_are_all_kept(durable: ControlPlane) -> None:
    patches = [ask(durable, "PATCH", f"{COLLECTION}/a", {"data": {f"k{n}": "v"}}, MERGE) for n in range(30)]

    answers = await asyncio.gather(*patches)

    assert {status for status, _ in answers} == {200}
    _, final = await ask(durable, "GET", f"{COLLECTION}/a", None)
    assert set(final["data"]) == {f"k{number}" for number in range(30)}


@pytest.mark.real_time
async def test_of_concurrent_updates_with_one_revision_one_wins(durable: ControlPlane) -> None:
    _, read = await ask(durable, "GET", f"{COLLECTION}/a", None)
    bodies = [{**read, "data": {"writer": str(number)}} for number in range(10)]

    answers = await asyncio.gather(*(ask(durable, "PUT", f"{COLLECTION}/a", body) for body in bodies))

    assert sorted(status for status, _ in answers) == [200, *([409] * 9)]


@pytest.mark.real_time
async def test_a_write_that_cannot_be_stored_is_refused_and_reading_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db", max_bytes=512 * 1024)
    plane = ControlPlane(store, lambda: datetime.now(UTC), lambda _: AccessControl(anybody, AllowAll()))
    await plane.start()
    await ask(plane, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})

    refused, status = await ask(plane, "POST", COLLECTION, {"metadata": {"name": "a"}, "data": {"k": "x" * 900_000}})
    found, _ = await ask(plane, "GET", "/api/v1/namespaces/default", None)

    assert (refused, status["reason"]) == (507, "InsufficientStorage")
    assert "free space" in status["message"]
    assert found == 200
    await plane.stop()


async def test_names_that_cannot_be_made_unique_are_refused_with_advice() -> None:
    plane = ControlPlane(
        MemoryStore(),
        lambda: datetime.now(UTC),
        lambda _: AccessControl(anybody, AllowAll()),
        entropy=lambda n: b"\7" * n,
    )
    await ask(plane, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    first, made = await ask(plane, "POST", COLLECTION, {"metadata": {"generateName": "x-"}})

    second, refused = await ask(plane, "POST", COLLECTION, {"metadata": {"generateName": "x-"}})

    assert (first, second) == (201, 409)
    assert made["metadata"]["name"].startswith("x-")
    assert refused["details"]["retryAfterSeconds"] == 1


async def test_a_terminating_namespace_takes_no_new_content(api: Any) -> None:
    await api.send("DELETE", "/api/v1/namespaces/default")

    refused = await api.ask("POST", COLLECTION, {"metadata": {"name": "late"}})

    assert refused["code"] == 403
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_a_namespace_goes_when_its_finalizers_are_emptied(api: Any) -> None:
    await api.send("DELETE", "/api/v1/namespaces/default")
    body = {"metadata": {"name": "default"}, "spec": {"finalizers": []}}

    finished = await api.send("PUT", "/api/v1/namespaces/default/finalize", body)

    assert finished.status == 200
    assert (await api.send("GET", "/api/v1/namespaces/default")).status == 404


async def test_what_is_stored_takes_the_memory_of_its_json(api: Any) -> None:
    async def store(number: int) -> None:
        await api.send("POST", COLLECTION, {"metadata": {"name": f"c-{number}"}, "data": {"text": "x" * 1_000}})

    await store(0)
    tracemalloc.start()
    try:
        for number in range(1, 101):
            await store(number)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert held / 100 < 5_000
