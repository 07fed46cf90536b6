"""Background tasks: a failure is shown and retried, and never ends them."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from watchword.api.http import Request
from watchword.apiserver.access.config import AccessControl
from watchword.apiserver.access.pki_directory import write_private
from watchword.apiserver.access.rbac import AuthorizationDecision
from watchword.apiserver.audit import AuditLog
from watchword.apiserver.background import BackgroundTasks, PeriodicTask, TaskStatus, choose_pause
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.serving.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.store.memory import MemoryStore


def now() -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC)


class AllowAll:
    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


async def anonymous(_: HandlerRequest) -> User | None:
    return None


def a_plane(audit: AuditLog | None = None) -> ControlPlane:
    return ControlPlane(MemoryStore(), now, lambda _: AccessControl(anonymous, AllowAll()), observe=audit)


@dataclass
class FlakyWork:
    """Fails as long as the disk is full."""

    disk_full: bool = False
    times: list[float] = field(default_factory=list)

    async def run(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self.disk_full:
            raise OSError(28, "No space left on device")


async def test_failed_task_runs_again_with_growing_pauses_until_it_succeeds() -> None:
    work = FlakyWork(disk_full=True)
    tasks = BackgroundTasks([PeriodicTask("compaction", 60.0, work.run)])
    began = asyncio.get_running_loop().time()

    await tasks.start()
    await asyncio.sleep(68)
    work.disk_full = False
    await asyncio.sleep(100)
    await tasks.stop()

    assert [at - began for at in work.times] == [60, 61, 63, 67, 75, 135]
    assert tasks.status["compaction"] == TaskStatus(runs=6, failures=4)


@pytest.mark.parametrize(
    ("failed_in_a_row", "pause"),
    [
        pytest.param(0, 60.0, id="healthy"),
        pytest.param(1, 1.0, id="first failure"),
        pytest.param(4, 8.0, id="more failures"),
        pytest.param(1000, 60.0, id="never longer than the period"),
    ],
)
def test_choose_pause(failed_in_a_row: int, pause: float) -> None:
    async def run() -> None: ...

    task = PeriodicTask("compaction", 60.0, run)

    assert choose_pause(task, TaskStatus(failed_in_a_row=failed_in_a_row)) == pause


async def test_failed_task_is_seen_in_readiness_and_metrics() -> None:
    plane, work = a_plane(), FlakyWork(disk_full=True)
    plane.background = BackgroundTasks([PeriodicTask("compaction", 60.0, work.run)])
    await plane.start()

    await asyncio.sleep(60.5)
    ready = await plane.handle(Request("GET", "/readyz"))
    metrics = await plane.handle(Request("GET", "/metrics"))
    live = await plane.handle(Request("GET", "/livez"))
    await plane.stop()

    assert (ready.status, live.status) == (500, 200)
    assert b"[-]background/compaction failed" in ready.body
    assert b'watchword_apiserver_background_task_healthy{task="compaction"} 0' in metrics.body
    assert b'watchword_apiserver_background_task_failures_total{task="compaction"} 1' in metrics.body


async def test_audit_log_that_cannot_be_written_ends_no_request() -> None:
    audit = AuditLog(Path("/dev/full"), now)

    answer = await a_plane(audit).handle(Request("GET", "/version"))
    audit.close()

    assert answer.status == 200
    assert not audit.status.is_healthy


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Let writes behind a place in a file fail, as on a full disk: one that begins before it is cut."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_file_that_does_not_fit_the_disk_leaves_the_present_one(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"present")

    with file_limit(10), pytest.raises(OSError, match="File too large"):
        write_private(tmp_path / "key", b"x" * 100)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"key": b"present"}


async def test_audit_log_holds_whole_lines_after_the_disk_was_full(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.log", now)
    plane = a_plane(audit)

    await plane.handle(Request("GET", "/one"))
    with file_limit((tmp_path / "audit.log").stat().st_size + 10):
        await plane.handle(Request("GET", "/two"))
        assert not audit.status.is_healthy
    await plane.handle(Request("GET", "/three"))
    audit.close()

    lines = (tmp_path / "audit.log").read_bytes().splitlines()
    assert [orjson.loads(line)["requestURI"] for line in lines] == ["/one", "/three"]
