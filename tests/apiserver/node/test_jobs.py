"""Jobs run to their end, and cron jobs start them on time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.apiserver.node.conftest import NodeHarness, a_template

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CRON_JOBS, JOBS
from watchword.apiserver.node.jobs import decide_job, decide_schedule

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = 60.0


def a_job_spec(**spec: Any) -> Object:
    return {"template": a_template("clean-clusters", restartPolicy="Never"), **spec}


async def test_a_job_whose_pod_succeeds_is_complete(harness: NodeHarness) -> None:
    harness.runner.script = [0]

    await harness.has(JOBS, "once", "apps", spec=a_job_spec())

    status = harness.get(JOBS, "once")["status"]
    assert is_true(harness.get(JOBS, "once"), "Complete")
    assert (status["succeeded"], status.get("active")) == (1, None)
    assert status["completionTime"] >= status["startTime"]


async def test_failing_job_is_retried_up_to_its_backoff_limit(harness: NodeHarness) -> None:
    harness.runner.script = [1] * 10

    await harness.has(JOBS, "once", "apps", spec=a_job_spec(backoffLimit=2))
    assert len(harness.runner.started) == 1
    await harness.settles(10)
    assert len(harness.runner.started) == 2
    await harness.settles(300)

    assert len(harness.runner.started) == 3
    assert is_true(harness.get(JOBS, "once"), "Failed")
    assert harness.get(JOBS, "once")["status"]["failed"] == 3


@pytest.mark.parametrize("spec", [{"completions": 3, "parallelism": 2}, {"suspend": True}])
async def test_job_of_several_pods_or_suspended_is_stored_only(harness: NodeHarness, spec: Object) -> None:
    await harness.has(JOBS, "many", "apps", spec=a_job_spec(**spec))

    assert harness.runner.started == []


async def test_a_job_that_takes_too_long_is_ended(harness: NodeHarness) -> None:
    await harness.has(JOBS, "slow", "apps", spec=a_job_spec(activeDeadlineSeconds=30))

    await harness.settles(31)

    assert is_true(harness.get(JOBS, "slow"), "Failed")
    assert harness.runner.started[0].ended.done()


async def test_a_cron_job_starts_a_job_at_each_due_minute_and_keeps_three(harness: NodeHarness) -> None:
    harness.runner.script = [0] * 100
    await harness.has(
        CRON_JOBS, "clean", "apps", spec={"schedule": "*/10 * * * *", "jobTemplate": {"spec": a_job_spec()}}
    )

    await harness.settles(61 * MINUTE)

    assert len(harness.runner.started) == 6
    assert len(harness.registry.list(JOBS, "apps")) == 3
    status = harness.get(CRON_JOBS, "clean")["status"]
    assert status["lastScheduleTime"].endswith("01:00:00Z")
    assert status["lastSuccessfulTime"].startswith("2026-01-01T01:00:0")


async def test_forbid_starts_nothing_while_a_job_runs(harness: NodeHarness) -> None:
    spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": a_job_spec()}}
    await harness.has(CRON_JOBS, "clean", "apps", spec=spec)

    await harness.settles(5 * MINUTE)
    assert len(harness.runner.started) == 1
    harness.runner.started[0].exits(0)
    await harness.settles(2 * MINUTE)

    assert len(harness.runner.started) == 2


async def test_a_suspended_cron_job_starts_nothing(harness: NodeHarness) -> None:
    spec = {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": a_job_spec()}}
    await harness.has(CRON_JOBS, "clean", "apps", spec=spec)

    await harness.settles(5 * MINUTE)
    assert harness.runner.started == []
    await harness.registry.delete(CRON_JOBS, ObjectKey("apps", "clean"))


def a_pod(phase: str, age: timedelta = timedelta(0)) -> Object:
    created = (NOON - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"metadata": {"creationTimestamp": created}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "end", "start"),
    [
        pytest.param([], None, True, id="new"),
        pytest.param([a_pod("Running")], None, False, id="runs"),
        pytest.param([a_pod("Failed", timedelta(minutes=9))] * 3, "Failed", False, id="given up"),
        pytest.param([a_pod("Failed"), a_pod("Succeeded")], "Complete", False, id="done"),
        pytest.param([a_pod("Failed")], None, False, id="failed just now"),
        pytest.param([a_pod("Failed", timedelta(seconds=10))], None, True, id="failed some time ago"),
    ],
)
def test_decide_job(pods: list[Object], end: str | None, start: bool) -> None:  # noqa: FBT001 - a table
    decision = decide_job({"spec": {"backoffLimit": 2}}, pods, now=NOON)

    assert (decision.end.type if decision.end else None, decision.start) == (end, start)


@pytest.mark.parametrize(
    ("schedule", "since", "missed", "following"),
    [
        pytest.param("*/10 * * * *", timedelta(minutes=3), None, "12:10", id="nothing due"),
        pytest.param("*/10 * * * *", timedelta(minutes=13), "12:00", "12:10", id="one due"),
        pytest.param("* * * * *", timedelta(days=400), "12:05", "12:06", id="after a year, only the last"),
        pytest.param("0 0 31 2 *", timedelta(days=3), None, None, id="never"),
    ],
)
def test_decide_schedule(schedule: str, since: timedelta, missed: str | None, following: str | None) -> None:
    now = NOON + timedelta(minutes=5, seconds=30)
    created = (now - since).strftime("%Y-%m-%dT%H:%M:%SZ")

    due = decide_schedule({"metadata": {"creationTimestamp": created}, "spec": {"schedule": schedule}}, now=now)

    assert [f"{t:%H:%M}" if t else None for t in due] == [missed, following]
