"""One simulated life from its first second to its last, and what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from random import Random
from typing import TypeAlias

from watchword.runtime.virtual import run_virtual
from watchword.testing.simulation.administrator import Administrator
from watchword.testing.simulation.director import Director
from watchword.testing.simulation.findings import Finding, Findings
from watchword.testing.simulation.incidents import Incident, draw_incidents
from watchword.testing.simulation.inspection import Inspector
from watchword.testing.simulation.planes import Images
from watchword.testing.simulation.probes import Prober
from watchword.testing.simulation.quiet import QuietTime, issued_at
from watchword.testing.simulation.secrecy import Log, Searcher, listening
from watchword.testing.simulation.settings import DAY, HOUR, MINUTE, Settings
from watchword.testing.simulation.world import World

FIRST_ROUNDS = (15 * MINUTE, HOUR)
TRESPASS_EVERY = 4  # rounds
NOBODY = "edge-0"
MOST_TOLD = 12  # findings, incidents: whoever reads a failure begins with the first


Deed: TypeAlias = Callable[["World"], Awaitable[None]]
Sabotage: TypeAlias = tuple[timedelta, Deed]


@dataclass(frozen=True, slots=True)
class Script:
    """What happens in a life that is not left to chance."""

    incidents: tuple[Incident, ...] = ()
    crash: tuple[str, int] | None = None  # a process, and after how many writes its first life ends
    sabotage: Sabotage | None = None  # what breaks a promise on purpose, to see that it is noticed


@dataclass(frozen=True, slots=True)
class Report:
    """How a life went."""

    settings: Settings
    digest: str  # the same for the same seed
    writes: int
    findings: tuple[Finding, ...]
    lives: Mapping[str, int] = field(default_factory=dict)  # how often each process was started
    incidents: tuple[Incident, ...] = ()  # what happened

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings

    @property
    def headline(self) -> str:
        """How it went, without why."""
        settings = self.settings
        head = f"seed {settings.seed}: {settings.days} days, {settings.clusters} clusters, {self.writes} events"
        if self.is_clean:
            return f"{head}, digest {self.digest}"
        told = [f"{head}, {len(self.findings)} broken promises:"]
        told += [f"  {finding.what}" for finding in self.findings[:MOST_TOLD]]
        return "\n".join(told)

    def __str__(self) -> str:
        if self.is_clean:
            return self.headline
        happened = [f"  {incident.when}  {incident}" for incident in self.incidents[:MOST_TOLD]]
        told = [self.headline, f"what happened (incidents: {len(self.incidents)}):", *happened]
        return "\n".join([*told, "what led to the first:", *(f"  {line}" for line in self.findings[0].trace)])


def simulate(settings: Settings, images: Images | None = None, script: Script | None = None) -> Report:
    """Live one life in virtual time; without a script, what happens is drawn from the seed."""
    images = images or Images.make()
    with listening() as log:
        return run_virtual(_live(settings, images, script, log), seed=settings.seed)


async def _live(settings: Settings, images: Images, script: Script | None, log: Log) -> Report:
    random = Random(settings.seed)  # noqa: S311 - replayable, not secret
    world = World.make(settings, images, random)
    findings = Findings(world.history)
    prober, searcher = Prober(world, findings), Searcher(world, log, findings)
    admin, inspector = Administrator(world), Inspector(world, findings)
    director = Director(world, admin, prober)
    script = script or Script(tuple(draw_incidents(settings, list(world.members))))
    if script.crash is not None:
        name, writes = script.crash
        world.process(name).first_crash = writes
    await world.start(random)
    await admin.prepare()
    looks = (inspector.look, searcher.look)
    rounds = asyncio.create_task(_keep_looking(world, admin, prober, looks), name="rounds")
    saboteur = asyncio.create_task(_sabotage(world, script.sabotage), name="saboteur")
    try:
        await director.play(script.incidents)
        await _settle(world, inspector)
    finally:
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
    await saboteur
    searcher.final()
    for line in log.errors:
        findings.add(f"an error that nobody foresaw: {line[:2000]}")
    await world.stop()
    lives = {process.name: process.lives for process in world.processes}
    found = tuple(findings.all)
    return Report(settings, world.history.digest, world.history.total, found, lives, script.incidents)


async def _sabotage(world: World, sabotage: Sabotage | None) -> None:
    if sabotage is not None:
        at, deed = sabotage
        await asyncio.sleep(at.total_seconds())
        await deed(world)


async def _keep_looking(
    world: World, admin: Administrator, prober: Prober, looks: Iterable[Callable[[], None]]
) -> None:
    """Let the people make their rounds and look at everything after each; now and then a cluster tries too much."""
    for instant in FIRST_ROUNDS:
        await asyncio.sleep((instant - world.elapsed).total_seconds())
        await admin.round()
    names = list(world.members)
    for number in count():
        await asyncio.sleep(world.settings.check_every.total_seconds())
        await admin.round()
        for look in looks:
            look()
        if number % TRESPASS_EVERY == 0:
            name, neighbour = (names[(number // TRESPASS_EVERY + step) % len(names)] for step in (0, 1))
            stranger = neighbour if neighbour != name else NOBODY
            await prober.expect_to_keep_to_itself(world.members[name], stranger)


async def _settle(world: World, inspector: Inspector) -> None:
    """Wait for the quiet end, then watch one day in which nothing but renewals may happen."""
    settings = world.settings
    await asyncio.sleep(max(0.0, (settings.storms_end - world.elapsed).total_seconds()))
    world.clear_up()
    await asyncio.sleep((settings.quiet - DAY).total_seconds())
    world.history.mark_quiet()
    before = issued_at(world.members.values())
    await asyncio.sleep(DAY.total_seconds())
    inspector.final()
    quiet = QuietTime(world.history.writes, before, issued_at(world.members.values()))
    for objection in quiet.judge():
        inspector.findings.add(objection)
