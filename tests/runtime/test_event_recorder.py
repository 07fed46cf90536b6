from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random

import pytest
from structlog.testing import capture_logs
from tests.helpers.memory_api import DelayedConnection, MemoryApi

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import EVENTS, MANAGED_CLUSTERS, SECRETS
from watchword.kube.client import Client
from watchword.kube.request_sender import NO_RETRY
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.metrics import Metrics
from watchword.testing.virtual_time import VirtualClock

CLUSTER = MANAGED_CLUSTERS.manifest(ObjectKey.cluster("edge"), metadata={"uid": "u1"})


class RecorderHarness:
    """A running recorder, its server, and what it dropped."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.line = DelayedConnection(self.api)
        self.metrics = Metrics()
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.recorder = EventRecorder(
            Client.from_handler(self.line.handle, retry=NO_RETRY),
            "watchword.io/hub",
            "hub-0",
            clock=self.clock,
            random=Random(1),
            counts=self.metrics,
        )

    def events(self) -> list[Object]:
        return [obj for path, obj in self.api.objects.items() if "/events/" in path]

    def dropped(self) -> float | None:
        return self.metrics.registry.get_sample_value("watchword_events_dropped_total")


@pytest.fixture
async def harness() -> AsyncIterator[RecorderHarness]:
    harness = RecorderHarness()
    task = asyncio.create_task(harness.recorder.run())
    yield harness
    task.cancel()


async def test_event_has_every_field_that_the_api_requires(harness: RecorderHarness) -> None:
    harness.recorder.warning(CLUSTER, "LeaseExpired", "the agent went silent", action="Judge")
    await asyncio.sleep(1)

    (event,) = harness.events()
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("edge.")
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert event["regarding"] == {
        "apiVersion": MANAGED_CLUSTERS.api_version,
        "kind": "ManagedCluster",
        "name": "edge",
        "uid": "u1",
    }
    told = {
        name: event[name] for name in ("type", "reason", "action", "note", "reportingController", "reportingInstance")
    }
    assert list(told.values()) == [
        *("Warning", "LeaseExpired", "Judge", "the agent went silent", "watchword.io/hub", "hub-0")
    ]


async def test_repetitions_become_one_series_that_is_written_rarely(harness: RecorderHarness) -> None:
    for _ in range(60):
        harness.recorder.warning(CLUSTER, "LeaseExpired", "silent")
        await asyncio.sleep(1)
    await asyncio.sleep(60)

    (event,) = harness.events()
    assert event["series"] == {"count": 60, "lastObservedTime": "2026-01-01T00:00:59.000000Z"}
    assert len(harness.api.requests) <= 4


async def test_series_that_goes_on_is_written_ever_more_rarely_and_a_new_note_soon(harness: RecorderHarness) -> None:
    for _ in range(24 * 60):
        harness.recorder.warning(CLUSTER, "NameAlreadyOwned", "owned")
        await asyncio.sleep(60)
    written = len(harness.api.requests)
    harness.recorder.warning(CLUSTER, "NameAlreadyOwned", "another reason")
    await asyncio.sleep(60)

    assert written <= 60
    assert [event["note"] for event in harness.events()] == ["owned", "another reason"]


async def test_another_note_is_told_by_another_event_and_no_more_often_than_a_series_is_written(
    harness: RecorderHarness,
) -> None:
    for number in range(60):
        harness.recorder.warning(CLUSTER, "ConfigurationInvalid", f"error {number}")
        await asyncio.sleep(1)
    await asyncio.sleep(60)

    notes = [event["note"] for event in harness.events()]
    assert (notes[0], notes[-1]) == ("error 0", "error 59")
    assert len(notes) <= 4


async def test_after_a_long_silence_a_repetition_is_a_new_event(harness: RecorderHarness) -> None:
    for _ in range(2):
        harness.recorder.normal(CLUSTER, "Joined", "welcome")
        await asyncio.sleep(3600)

    assert len(harness.events()) == 2


async def test_a_flood_is_bounded_in_rate_and_number_and_what_is_dropped_is_counted(harness: RecorderHarness) -> None:
    for number in range(1900):
        harness.recorder.warning(SECRETS.manifest(ObjectKey("ns", f"s{number}")), "Refused", "new")
    await asyncio.sleep(1)
    assert len(harness.events()) <= 56

    await asyncio.sleep(300)

    assert len(harness.events()) == 1000
    assert harness.dropped() == 900


async def test_unreachable_server_does_not_delay_others(harness: RecorderHarness) -> None:
    harness.line.delay = lambda: None
    harness.recorder.normal(CLUSTER, "Joined", "welcome")
    await asyncio.sleep(1)
    assert harness.dropped() == 1

    harness.line.delay = lambda: 0.0
    harness.recorder.normal(CLUSTER, "Joined", "welcome")
    await asyncio.sleep(1)

    assert len(harness.events()) == 1


async def test_notes_are_redacted_and_cut_to_what_the_api_takes(harness: RecorderHarness) -> None:
    harness.recorder.warning(CLUSTER, "Bad", "token abcdef.0123456789abcdef " + "ä" * 2000)
    await asyncio.sleep(1)

    note = harness.events()[0]["note"]
    assert note.startswith("token abcdef.*** ")
    assert len(note.encode()) <= 1024


async def test_at_the_end_of_a_process_what_waits_is_sent(harness: RecorderHarness) -> None:
    harness.recorder.normal(SECRETS.manifest(ObjectKey("ns", "Sys:Tem")), "Created", "new")

    await harness.recorder.flush(timedelta(seconds=5))

    assert [event["metadata"]["namespace"] for event in harness.events()] == ["ns"]
    assert EVENTS.path(namespace="ns") in harness.api.requests[0][1]


async def test_every_new_event_is_an_audit_line_also_when_it_is_dropped(harness: RecorderHarness) -> None:
    with capture_logs() as lines:
        for _ in range(3):
            harness.recorder.refusal(CLUSTER, "CSRRefused", "the requester may not: token abc.def")
        for number in range(1200):
            harness.recorder.warning(SECRETS.manifest(ObjectKey("ns", f"s{number}")), "Refused", "new")

    decisions = [line for line in lines if line["event"] == "decision"]
    assert len(decisions) == 1 + 1200
    assert harness.dropped()
    first = {name: decisions[0][name] for name in ("severity", "reason", "object_kind", "object", "uid")}
    assert list(first.values()) == ["Warning", "CSRRefused", "ManagedCluster", "edge", "u1"]


async def test_another_decision_of_the_same_reason_is_an_audit_line_although_the_event_is_a_series(
    harness: RecorderHarness,
) -> None:
    with capture_logs() as lines:
        for until in ("noon", "noon", "midnight"):
            harness.recorder.normal(CLUSTER, "CredentialRotated", f"valid until {until}")
        await harness.recorder.flush(timedelta(seconds=5))

    assert [line["note"] for line in lines if line["event"] == "decision"] == [
        "valid until noon",
        "valid until midnight",
    ]
    assert len(harness.events()) == 1


async def test_no_secret_is_in_an_audit_line(harness: RecorderHarness) -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
    with capture_logs() as lines:
        harness.recorder.warning(CLUSTER, "Refused", f"refused: Bearer {token}")

    assert token not in str(lines)


async def test_the_same_event_of_many_objects_is_combined_and_each_has_its_audit_line(harness: RecorderHarness) -> None:
    with capture_logs() as lines:
        for number in [*range(300), 299]:
            harness.recorder.normal(SECRETS.manifest(ObjectKey("ns", f"s{number}")), "Created", f"s{number} is new")
        await asyncio.sleep(60)

    *single, combined = harness.events()
    assert [event["note"] for event in single] == [f"s{number} is new" for number in range(10)]
    assert combined["note"] == "(combined from similar events): s10 is new"
    assert combined["regarding"]["name"] == "s10"
    assert combined["series"]["count"] == 290
    assert len([line for line in lines if line["event"] == "decision"]) == 300


@pytest.mark.parametrize("ahead", [0, 365], ids=["clock is right", "clock was a year ahead"])
async def test_similar_events_are_told_one_by_one_again_after_ten_minutes(harness: RecorderHarness, ahead: int) -> None:
    harness.clock.skew = timedelta(days=ahead)
    for number in range(12):
        harness.recorder.normal(SECRETS.manifest(ObjectKey("ns", f"s{number}")), "Created", "new")
    harness.clock.skew = timedelta(0)
    await asyncio.sleep(600)
    harness.recorder.normal(SECRETS.manifest(ObjectKey("ns", "later")), "Created", "new")
    await asyncio.sleep(1)

    assert [event["regarding"]["name"] for event in harness.events()][-2:] == ["s10", "later"]
