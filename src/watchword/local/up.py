"""Starts a fleet on this machine, shows it, and stops it."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog
from msgspec import Struct, field

from watchword.admin.terminal import supports_unicode
from watchword.dashboard.process import DashboardOptions, ServedDashboard, follow_readable, serve_dashboard
from watchword.local.data_directory import FleetDirectory, choose_layout, free_ports
from watchword.local.fleet import LocalFleet, UpOptions
from watchword.local.output import UpOutput
from watchword.local.pods import EventLog, FlagParsers
from watchword.local.startup import StepStatus, full_disk_reasons, run_steps
from watchword.local.steps import choose_steps
from watchword.local.trials import require_libraries
from watchword.local.view import FleetView
from watchword.registration.catalog import CATALOG
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.event_loop import run_until_stopped

FRAME = 0.1  # seconds between two pictures at least
TICK = 1.0  # and at most: time left is shown


async def up(
    folder: FleetDirectory, options: UpOptions, output: UpOutput, read: FlagParsers, stop: asyncio.Event
) -> None:
    """Run a fleet until `stop` is set; the folder is locked. Raises what prevents the start."""
    recorded = folder.recorded()
    layout = choose_layout(recorded, options.requested, free_ports(), folder.path)
    require_libraries(layout.registration_auth)
    clock: Clock = SystemClock()
    fleet = LocalFleet(folder, layout, clock, read, options, is_new=recorded is None)
    if fleet.cloud is not None:
        fleet.cloud.emulator_command()  # refused before anything is written
    folder.record(layout)
    steps = [(step, StepStatus(step.key, step.title)) for step in choose_steps(len(layout.clusters))]
    display = ProgressDisplay(fleet, [status for _, status in steps], output, stop)
    showing = asyncio.create_task(display.show(), name="view")
    try:
        if await run_until_stopped(stop, run_steps(fleet, steps, display.show_step, options.patience)):
            if not options.leave:  # they need a reader that responds
                rotatable = layout.clusters if fleet.cloud is None else ()  # the cloud renews its own
                display.commands = commands_to_try(folder.kubeconfig, next((c.name for c in rotatable), ""))
                display.dashboard = await start_dashboard(fleet)
            output.ready(display.view, asyncio.get_running_loop().time() - display.began)
            if not options.leave:
                await stop.wait()
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        display.stopping = True
        display.refresh()  # at once: twenty clusters take a moment to end
        await fleet.close()
        display.stopping = False
        display.refresh()
        output.close("" if options.leave else _final_message(folder, options))


async def start_dashboard(fleet: LocalFleet) -> ServedDashboard:
    """Serve the web dashboard on a loopback port until the fleet ends, from the observer of the terminal view."""
    client, observer = fleet.hub.client, fleet.hub_observer
    await fleet.stack.enter_async_context(follow_readable(client, observer))
    return await fleet.stack.enter_async_context(
        serve_dashboard(client, observer, DashboardOptions(), clock=fleet.clock)
    )


class ProgressDisplay(Struct):
    """Shows the fleet again whenever something changes, and every second."""

    fleet: LocalFleet
    steps: Sequence[StepStatus]
    output: UpOutput
    stop: asyncio.Event
    commands: Sequence[str] = ()
    dashboard: ServedDashboard | None = None
    stopping: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    events: EventLog = field(default_factory=EventLog)
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def view(self) -> FleetView:
        fleet, now = self.fleet, self.fleet.clock.now()
        count, doing = len(fleet.clusters), "stopping " if self.stopping else ""
        return FleetView(
            title=f"up: {doing}a hub and {count} cluster{'' if count == 1 else 's'} in {fleet.folder.path}",
            steps=self.steps,
            inventory=fleet.inventory(),
            recent_events=self.events.read(fleet.observer.recent_events(), now) if fleet.observer is not None else (),
            commands=self.commands,
            dashboard=self.dashboard.address() if self.dashboard is not None and not self.stopping else "",
            now=now,
            hint=self._hint(),
            unicode=supports_unicode(sys.stdout),
            driver=fleet.layout.registration_auth or CATALOG.default,
        )

    def _hint(self) -> str:
        full = full_disk_reasons(self.fleet.folder.path)
        kept = "nothing is kept" if self.fleet.options.in_memory else "everything is kept"
        return "; ".join([*full, f"Ctrl-C stops it, and {kept}"])

    def show_step(self, status: StepStatus) -> None:
        self.output.step(status)
        self.changed.set()

    async def show(self) -> None:
        while True:
            seen = self.fleet.observer.changes if self.fleet.observer is not None else 0
            self.changed.clear()
            self.refresh()
            if self.output.reader_closed:  # a closed terminal, or the end of a pipe: the reader is gone
                self.stop.set()
            await asyncio.sleep(FRAME)
            waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self.changed.wait())]
            if self.fleet.observer is not None:
                waits.append(asyncio.ensure_future(self.fleet.observer.change(seen)))
            try:
                await asyncio.wait(waits, timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def refresh(self) -> None:
        try:
            self.output.refresh(self.view)
        except Exception:  # noqa: BLE001 - a picture that cannot be drawn must not end a fleet
            structlog.get_logger("watchword.up").exception("the fleet cannot be shown")


def commands_to_try(kubeconfig: Path, cluster: str) -> list[str]:
    where, program = _from_home(kubeconfig), program_name(sys.argv[0])
    commands = [f"kubectl --kubeconfig {where} get managedclusters", f"{program} status --kubeconfig {where}"]
    return [*commands, f"{program} rotate cluster {cluster} --kubeconfig {where}"] if cluster else commands


def program_name(argument: str) -> str:
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


def _final_message(folder: FleetDirectory, options: UpOptions) -> str:
    if options.in_memory:
        return "stopped; nothing is kept"
    return f"stopped; everything is kept in {folder.path}; the next `up` continues with it"
