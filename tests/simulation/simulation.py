"""One simulated life from its first second to its last, and what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any, TypeAlias

from msgspec import Struct, field
from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator
from tests.simulation.catalog import draw_life, make_pillars, write_patterns
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.findings import FindingChecker
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.growth import TEMPORARY, Sizes, find_growth
from tests.simulation.herd import HerdDetector
from tests.simulation.incidents import Incident
from tests.simulation.invariants import InvariantChecker
from tests.simulation.memory_network import SimulatedLoop
from tests.simulation.pillar import Pillar
from tests.simulation.planes import PlaneImages
from tests.simulation.quiet_period import QuietPeriod, issued_at
from tests.simulation.secret_leaks import CapturedLog, LeakSearcher, capture_log
from tests.simulation.settings import DAY, HOUR, MINUTE, SimulationSettings
from tests.simulation.violations import Violation, Violations

from watchword.credentials.lifecycle import RENEWAL_WINDOW

FIRST_ROUNDS = (15 * MINUTE, HOUR)
ISOLATION_CHECK_EVERY = 4  # rounds
UNKNOWN_CLUSTER = "edge-0"
MAX_REPORTED = 12  # violations, incidents: a reader of a failure begins with the first


Action: TypeAlias = Callable[["SimulatedFleet"], Awaitable[None]]
Sabotage: TypeAlias = tuple[timedelta, Action]


class SimulationScript(Struct, frozen=True):
    """What happens in a life that is not left to chance."""

    incidents: tuple[Incident, ...] = ()
    crash: tuple[str, int] | None = None  # a process, and after how many writes its first life ends
    sabotage: Sabotage | None = None  # what breaks a promise on purpose, to see that it is noticed
    is_sought: Callable[[str], bool] = lambda _: False  # a broken promise that ends the life at once


class SimulationReport(Struct, frozen=True):
    """How a life went."""

    settings: SimulationSettings
    digest: str  # the same for the same seed
    writes: int
    violations: tuple[Violation, ...]
    starts: Mapping[str, int] = field(default_factory=dict)  # how often each process was started
    incidents: tuple[Incident, ...] = ()  # what happened
    reached: Mapping[tuple[str, str], int] = field(default_factory=dict)  # incident, pillar → how often

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    @property
    def headline(self) -> str:
        """How it went, without why."""
        settings = self.settings
        head = f"seed {settings.seed}: {settings.days} days, {settings.clusters} clusters, {self.writes} events"
        if self.is_clean:
            return f"{head}, digest {self.digest}"
        told = [f"{head}, {len(self.violations)} broken promises:"]
        told += [f"  {violation.what}" for violation in self.violations[:MAX_REPORTED]]
        return "\n".join(told)

    def __str__(self) -> str:
        if self.is_clean:
            return self.headline
        happened = [f"  {incident.when}  {incident}" for incident in self.incidents[:MAX_REPORTED]]
        told = [self.headline, f"what happened (incidents: {len(self.incidents)}):", *happened]
        return "\n".join([*told, "what led to the first:", *(f"  {line}" for line in self.violations[0].trace)])


def simulate(
    settings: SimulationSettings, images: PlaneImages | None = None, script: SimulationScript | None = None
) -> SimulationReport:
    """Live one life in virtual time; without a script, what happens is drawn from the seed."""
    images = images or PlaneImages.make()
    with capture_log() as log:
        loop_factory = partial(SimulatedLoop, seed=settings.seed, drift=settings.drift)
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_run(settings, images, script, log))


async def _run(
    settings: SimulationSettings, images: PlaneImages, script: SimulationScript | None, log: CapturedLog
) -> SimulationReport:
    random = Random(settings.seed)
    fleet = SimulatedFleet.make(settings, images, random)
    violations = Violations(fleet.history, is_sought=script.is_sought if script else lambda _: False)
    prober = AccessProber(fleet, violations)
    pillars = make_pillars(fleet, Administrator(fleet), prober, violations)
    searcher, invariants = LeakSearcher(fleet, pillars, log, violations), InvariantChecker(fleet, pillars, violations)
    injector = FaultInjector(pillars)
    script = script or SimulationScript(tuple(draw_life(settings, pillars)))
    HerdDetector(fleet).start()
    if script.crash is not None:
        name, writes = script.crash
        fleet.process(name).first_crash = writes
    looks = (invariants.look, searcher.look, FindingChecker(fleet, pillars, violations).look)
    try:
        await fleet.start(random)
        for pillar in pillars:
            await pillar.start()
        rounds = _check_periodically(fleet, pillars, prober, looks)
        life = (partial(injector.inject, script.incidents), partial(_settle, fleet, invariants))
        await _accompany(life, violations.sought, rounds, _sabotage(fleet, script.sabotage))
        searcher.final()
        await fleet.stop()
    except Exception as error:  # noqa: BLE001 - whatever it is, its seed and its incidents have to be told
        violations.add_error(error)
    for line in log.errors:
        violations.add(f"an unexpected error: {line[:2000]}")
    starts = {process.name: process.starts for process in fleet.processes}
    found, history = tuple(violations.all), fleet.history
    return SimulationReport(
        settings, history.digest, history.total, found, starts, script.incidents, dict(injector.reached)
    )


async def _accompany(
    life: Iterable[Callable[[], Awaitable[None]]],
    found: asyncio.Event,
    checks: Coroutine[Any, Any, None],
    sabotage: Coroutine[Any, Any, None],
) -> None:
    """Live a life with its periodic checks beside it, and with what breaks a promise on purpose."""
    rounds = asyncio.create_task(checks, name="rounds")
    saboteur = asyncio.create_task(sabotage, name="saboteur")
    try:
        await _live(life, found)
    finally:
        rounds.cancel()
        await asyncio.wait((rounds,))
    if not rounds.cancelled():
        rounds.result()  # they end with an error only
    await saboteur


async def _live(life: Iterable[Callable[[], Awaitable[None]]], found: asyncio.Event) -> None:
    """Let everything happen and settle; return at once when what is sought was found."""

    async def whole() -> None:
        for part in life:
            await part()

    tasks = [asyncio.create_task(whole(), name="life"), asyncio.create_task(found.wait(), name="search")]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()


async def _sabotage(fleet: SimulatedFleet, sabotage: Sabotage | None) -> None:
    if sabotage is not None:
        at, deed = sabotage
        await asyncio.sleep(at.total_seconds())
        await deed(fleet)


async def _check_periodically(
    fleet: SimulatedFleet, pillars: Sequence[Pillar], prober: AccessProber, looks: Iterable[Callable[[], None]]
) -> None:
    """Let the people make their rounds, and look at everything after a step; now and then a cluster tries too much."""
    for instant in FIRST_ROUNDS:
        await asyncio.sleep((instant - fleet.elapsed).total_seconds())
        for pillar in pillars:
            await pillar.round()
    names = list(fleet.members)
    for number in count():
        for _ in range(fleet.settings.steps):
            await _step(pillars, fleet.settings.check_every / fleet.settings.steps)
            for look in looks:
                look()
        for pillar in pillars:
            await pillar.round()
        if number % ISOLATION_CHECK_EVERY == 0:
            name, neighbour = (names[(number // ISOLATION_CHECK_EVERY + step) % len(names)] for step in (0, 1))
            stranger = neighbour if neighbour != name else UNKNOWN_CLUSTER
            await prober.expect_isolated(fleet.members[name], stranger)


async def _step(pillars: Sequence[Pillar], length: timedelta) -> None:
    for _ in range(length // HOUR):
        await asyncio.sleep(HOUR.total_seconds())
        for pillar in pillars:
            await pillar.hour()
    for pillar in pillars:
        await pillar.step()


async def _settle(fleet: SimulatedFleet, invariants: InvariantChecker) -> None:
    """Wait for the quiet end, then watch one day in which nothing but renewals may happen."""
    settings = fleet.settings
    await asyncio.sleep(max(0.0, (settings.faults_end - fleet.elapsed).total_seconds()))
    fleet.clear_faults()
    await asyncio.sleep((settings.quiet - DAY).total_seconds())
    fleet.history.mark_quiet()
    before, sizes = issued_at(invariants.pillars), Sizes.measure(fleet)
    await asyncio.sleep(DAY.total_seconds())
    invariants.final()
    for growth in find_growth(sizes, Sizes.measure(fleet, created_before=fleet.now - TEMPORARY), settings.clusters):
        invariants.violations.add(growth)
    most_renewals = 1 + DAY // (settings.shortest_life * RENEWAL_WINDOW.start)
    pillars = invariants.pillars
    quiet = QuietPeriod(fleet.history.writes, before, issued_at(pillars), *write_patterns(pillars), most_renewals)
    for objection in quiet.find_violations():
        invariants.violations.add(objection)
