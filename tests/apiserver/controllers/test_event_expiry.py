"""Events are deleted an hour after their last write."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CORE_EVENTS, EVENTS
from watchword.apiserver.controllers.event_expiry import EVENT_TTL
from watchword.apiserver.serving.model import ApiError

SECOND = timedelta(seconds=1)
KEY = ObjectKey("default", "e")


async def has_event(harness: Any, name: str = "e") -> Object:
    regarding = {"kind": "Pod", "name": "p", "namespace": "default"}
    created: Object = await harness.has(CORE_EVENTS, name, "default", involvedObject=regarding, reason="r")
    return created


async def test_event_is_deleted_an_hour_after_it_was_created(harness: Any) -> None:
    await has_event(harness)

    await harness.elapses(EVENT_TTL - SECOND)
    assert harness.registry.get(CORE_EVENTS, KEY) is not None
    await harness.elapses(2 * SECOND)
    assert harness.registry.get(CORE_EVENTS, KEY) is None


async def test_a_write_prolongs_its_life(harness: Any) -> None:
    event = await has_event(harness)
    await has_event(harness, "other")
    await harness.elapses(EVENT_TTL / 2)

    await harness.registry.update(CORE_EVENTS, {**event, "count": 2})

    await harness.elapses(EVENT_TTL / 2 + SECOND)
    assert [found["metadata"]["name"] for found in harness.registry.list(CORE_EVENTS)] == ["e"]
    await harness.elapses(EVENT_TTL / 2)
    assert harness.registry.list(CORE_EVENTS) == []


async def test_event_of_the_newer_group_expires_too(harness: Any) -> None:
    fields = {"eventTime": "2030-01-01T00:00:00.000000Z", "type": "Normal", "action": "a", "reason": "r"}
    reporter = {"reportingController": "tests", "reportingInstance": "tests"}
    regarding = {"kind": "Pod", "name": "p", "namespace": "default"}
    await harness.has(EVENTS, "e", "default", regarding=regarding, **fields, **reporter)

    await harness.elapses(EVENT_TTL + SECOND)

    assert harness.registry.list(EVENTS) == []


async def test_events_of_an_earlier_run_expire_by_their_own_age(harness: Any) -> None:
    await has_event(harness)
    await harness.elapses(EVENT_TTL / 2)
    await harness.controllers.stop()
    await harness.controllers.start()

    await harness.elapses(EVENT_TTL / 2 + SECOND)

    assert harness.registry.list(CORE_EVENTS) == []


async def test_events_are_deleted_once_the_store_takes_writes_again(harness: Any) -> None:
    for name in ("e", "f"):
        await has_event(harness, name)
    delete = harness.registry.delete

    async def fail(*_: Any, **__: Any) -> None:
        raise ApiError(507, "InsufficientStorage", "the disk is full")

    harness.registry.delete = fail
    await harness.elapses(EVENT_TTL + SECOND)
    harness.registry.delete = delete

    await harness.elapses(2 * timedelta(minutes=1))

    assert harness.registry.list(CORE_EVENTS) == []
