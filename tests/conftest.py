"""Fixtures of all tests: time is virtual unless a test is marked otherwise."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from hypothesis import HealthCheck, settings
from tests.helpers import leak_search
from tests.helpers.fleet import FleetHarness, run_fleet

from watchword.cli.main import COLLECTION_THRESHOLDS
from watchword.runtime.event_loop import new_loop
from watchword.runtime.informer_store import MUTATION_DETECTOR
from watchword.runtime.logs import redact_event
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import VirtualLoop

PROCESSORS: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.format_exc_info,
    redact_event,
    structlog.processors.JSONRenderer(),
]


def pytest_addoption(parser: pytest.Parser) -> None:
    explained = "run the modules, and the tests of each module, in the random order of this seed"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=explained)


def pytest_configure(config: pytest.Config) -> None:
    """Log and collect garbage as a program would, and draw the same examples each time unless WATCHWORD_FUZZ is set."""
    config.pluginmanager.register(leak_search)
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    os.environ[MUTATION_DETECTOR] = "true"  # programs that tests start inherit it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: programs inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    steady = settings(
        deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )  # no test depends on the machine's speed
    settings.register_profile("steady", steady, derandomize=True, database=None)
    settings.register_profile("fuzz", steady)
    settings.load_profile("fuzz" if os.environ.get("WATCHWORD_FUZZ") else "steady")
    structlog.configure(processors=PROCESSORS)


def pytest_runtest_setup() -> None:
    """Undo what a command of an earlier test has configured: its level would hide what this test looks for."""
    structlog.reset_defaults()
    structlog.configure(processors=PROCESSORS)


@pytest.hookimpl(trylast=True)  # pytest itself orders by fixtures first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shuffle") is not None:
        shuffle(items, config.getoption("--shuffle"))


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Bring tests into the order of a seed; those of a module stay together, for they share its fixtures."""
    order = random.Random(seed)
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    groups = list(modules.values())
    order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    items[:] = [item for group in groups for item in group]


def pytest_collection_finish() -> None:
    """Look for no garbage in what was imported and collected: it stays until the end."""
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """Run one worker more than there are cores: tests of programs wait for them most of the time."""
    return (os.cpu_count() or 1) + 1


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run async tests in virtual time, or on a real loop when marked `real_time`."""
    if item.get_closest_marker("real_time"):
        return {"real": new_loop}
    return {"virtual": VirtualLoop}


@pytest.fixture
def logs_in_file(tmp_path: Path) -> Iterator[Path]:
    """Keep what controllers log out of the output of commands, and undo what commands configure."""
    usual = structlog.get_config()
    path = tmp_path / "log"
    with path.open("w") as log:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(log))
        try:
            yield path
        finally:
            structlog.configure(**usual)
    sys.stdout.write(path.read_text())  # with the output of the test: what it logged is searched for secrets


@pytest_asyncio.fixture
async def fleet(plane: Plane) -> AsyncIterator[FleetHarness]:
    """A hub and its agents on the chosen control plane; the test starts them."""
    async with run_fleet(plane) as running:
        yield running
