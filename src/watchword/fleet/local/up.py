"""A fleet on this machine from the first step to the last word."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from watchword._structlog import structlog
from watchword.fleet.local.blueprint import FreePorts, Wish, choose_blueprint
from watchword.fleet.local.building import build, story_of
from watchword.fleet.local.folder import FleetFolder
from watchword.fleet.local.fronts import Front
from watchword.fleet.local.pods import FlagReaders
from watchword.fleet.local.site import Site
from watchword.fleet.local.steps import choose_steps
from watchword.fleet.local.story import Story
from watchword.fleet.local.view import Scene
from watchword.fleet.screen import speaks_unicode
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.waiting import finishes_before

FRAME = 0.1  # seconds between two pictures at least
TICK = 1.0  # and at most: time left is shown


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What a person may choose."""

    wish: Wish = field(default_factory=Wish)
    in_memory: bool = False
    leave: bool = False  # end once all is healthy
    patience: timedelta | None = None  # None: as long as it takes


async def up(folder: FleetFolder, options: UpOptions, front: Front, read: FlagReaders, stop: asyncio.Event) -> None:
    """Run a fleet until asked to stop; the folder is claimed. Raises what keeps it from coming up."""
    blueprint = choose_blueprint(folder.recorded(), options.wish, FreePorts())
    folder.record(blueprint)
    clock: Clock = SystemClock()
    site = Site(folder, blueprint, clock, read, options.in_memory)
    steps = choose_steps(len(blueprint.clusters))
    story = story_of(steps)
    story.listeners.append(front.step)
    stage = Stage(site, story, front, stop)
    story.listeners.append(lambda _: stage.changed.set())
    showing = asyncio.create_task(stage.show(), name="view")
    try:
        if await finishes_before(stop, build(site, story, steps, options.patience)):
            if not options.leave:  # they need somebody who answers
                stage.commands = commands_to_try(folder.kubeconfig, next((c.name for c in blueprint.clusters), ""))
            front.ready(stage.scene, asyncio.get_running_loop().time() - stage.began)
            if not options.leave:
                await stop.wait()
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        stage.stopping = True
        stage.refresh()  # at once: twenty clusters take a moment to end
        await site.close()
        stage.stopping = False
        stage.refresh()
        front.close("" if options.leave else _farewell(folder, options))


@dataclass
class Stage:
    """Shows the fleet again whenever something changes, and every second."""

    site: Site
    story: Story
    front: Front
    stop: asyncio.Event
    commands: Sequence[str] = ()
    stopping: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def scene(self) -> Scene:
        """Return the picture of this moment."""
        site = self.site
        count, doing = len(site.clusters), "stopping " if self.stopping else ""
        return Scene(
            title=f"up: {doing}a hub and {count} cluster{'' if count == 1 else 's'} in {site.folder.path}",
            steps=self.story.lines,
            inventory=site.inventory(),
            happenings=site.observer.happenings() if site.observer is not None else (),
            commands=self.commands,
            now=site.clock.now(),
            hint="Ctrl-C stops it, and " + ("nothing is kept" if site.in_memory else "everything is kept"),
            unicode=speaks_unicode(sys.stdout),
        )

    async def show(self) -> None:
        """Show it for ever."""
        while True:
            seen = self.site.observer.changes if self.site.observer is not None else 0
            self.changed.clear()
            self.refresh()
            if self.front.gone:  # a closed terminal, or the end of a pipe: nobody waits for this fleet
                self.stop.set()
            await asyncio.sleep(FRAME)
            await self._something(seen)

    def refresh(self) -> None:
        """Show it now."""
        try:
            self.front.refresh(self.scene)
        except Exception:  # noqa: BLE001 - a picture that cannot be drawn must not end a fleet
            structlog.get_logger("watchword.up").exception("the fleet cannot be shown")

    async def _something(self, seen: int) -> None:
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self.changed.wait())]
        if self.site.observer is not None:
            waits.append(asyncio.ensure_future(self.site.observer.change(seen)))
        try:
            await asyncio.wait(waits, timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def commands_to_try(kubeconfig: Path, cluster: str) -> list[str]:
    """Return three commands that show what there is and what can be done."""
    where, program = _from_home(kubeconfig), program_name(sys.argv[0])
    commands = [
        f"kubectl --kubeconfig {where} get managedclusters",
        f"{program} status --kubeconfig {where}",
    ]
    return [*commands, f"{program} rotate cluster {cluster} --kubeconfig {where}"] if cluster else commands


def program_name(argument: str) -> str:
    """Return how this program is called from where the person stands."""
    if Path(argument).name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m watchword"
    found = shutil.which("watchword")
    if found is not None and Path(found).resolve() == Path(argument).resolve():
        return "watchword"
    return shlex.quote(argument)


def _from_home(path: Path) -> str:
    home = Path.home()
    if path.is_relative_to(home) and home != Path("/"):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def _farewell(folder: FleetFolder, options: UpOptions) -> str:
    if options.in_memory:
        return "stopped; nothing is kept"
    return f"stopped; everything is kept in {folder.path}; the next `up` goes on from there"
