"""The data directory of a fleet on this machine: ours, private, and used by one process at a time."""

import fcntl
import os
import shlex
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from random import SystemRandom

import msgspec
from msgspec import Struct

from watchword.admin.errors import AdminError, InvalidInput, NotReady, OperationRefused
from watchword.apiserver.access.pki_directory import write_private
from watchword.apiserver.instance import require_private_directory
from watchword.apiserver.store.model import StoreOpenError
from watchword.registration.catalog import CATALOG

KIND, VERSION = "watchword-fleet", 1
DEFAULT_CLUSTERS = 2
LAST_PORT = 65535
PORT_RANGE = range(20_000, 30_000)
"""Below those that systems choose for connections, and below those of Kubernetes' own services."""

LOCK, LAYOUT_FILE, LOG = "lock", "fleet.json", "up.log"
EPHEMERAL_PREFIX = "watchword-fleet-"
POLL_INTERVAL = 0.05


class ControlPlaneAddress(msgspec.Struct, frozen=True):
    """One control plane: its name, and the port it listens on."""

    name: str
    port: int


class FleetLayout(msgspec.Struct, frozen=True):
    """The content of the file in the data directory; it also marks the directory as ours."""

    hub: ControlPlaneAddress
    clusters: tuple[ControlPlaneAddress, ...]
    kind: str = KIND
    version: int = VERSION
    registration_auth: str = ""  # how the clusters register; empty: by the default driver
    server_port: int = 0  # of the server that this driver brings; 0: it brings none

    @property
    def addresses(self) -> tuple[ControlPlaneAddress, ...]:
        return (self.hub, *self.clusters)


class LayoutRequest(Struct, frozen=True):
    """What the user requested; None: as before, or the default."""

    clusters: int | None = None
    port: int | None = None  # of the hub; the clusters follow it
    registration_auth: str = ""  # empty: as before, or the default
    needs_server_port: bool = False  # whether that driver brings a server
    names: tuple[str, ...] = ()  # of the clusters, instead of their number


def read_layout(data: bytes) -> FleetLayout | None:
    """Return the layout, None when the file is not one; `OperationRefused` when a newer version wrote it."""
    try:
        found = msgspec.json.decode(data, type=FleetLayout)
    except msgspec.MsgspecError:
        return None
    if found.kind != KIND:
        return None
    if found.version > VERSION:
        raise OperationRefused(
            "the data directory was written by a newer version of watchword: use that one, or another folder"
        )
    return found


def reset_command(folder: Path) -> str:
    return shlex.join(["watchword", "reset", "--data-dir", str(folder)])


def choose_layout(
    recorded: FleetLayout | None, requested: LayoutRequest, ports: Iterator[int], folder: Path
) -> FleetLayout:
    """Return the layout to start; recorded addresses stay, because credentials name them. Raise `OperationRefused`."""
    if recorded is None:
        count = DEFAULT_CLUSTERS if requested.clusters is None else requested.clusters
        hub = FleetLayout(_address("hub", 0, requested, ports), (), registration_auth=requested.registration_auth)
        layout = add_clusters(hub, count, requested, ports)
        if not requested.needs_server_port:
            return layout
        taken = {address.port for address in layout.addresses}
        port = next(port for port in ports if port not in taken)
        return msgspec.structs.replace(layout, server_port=port)
    if requested.registration_auth and requested.registration_auth != (recorded.registration_auth or CATALOG.default):
        raise OperationRefused(
            f"the clusters of this fleet register otherwise: leave --registration-auth out, or begin anew with "
            f"`{reset_command(folder)}`"
        )
    if requested.port is not None and requested.port != recorded.hub.port:
        raise OperationRefused(
            f"this fleet's hub listens on port {recorded.hub.port}, and its clusters know it by that: leave --port "
            f"out, or begin anew with `{reset_command(folder)}`"
        )
    gone = [each.name for each in recorded.clusters if requested.names and each.name not in requested.names]
    if gone:
        raise OperationRefused(
            f"this fleet has the cluster {gone[0]}: name it in --cluster-names too, or begin anew with "
            f"`{reset_command(folder)}`"
        )
    if requested.clusters is not None and requested.clusters < len(recorded.clusters):
        raise OperationRefused(
            f"this fleet has {len(recorded.clusters)} clusters: give --clusters {len(recorded.clusters)} or more, or "
            f"begin anew with `{reset_command(folder)}`"
        )
    return add_clusters(recorded, requested.clusters or 0, requested, ports)


def add_clusters(layout: FleetLayout, count: int, requested: LayoutRequest, ports: Iterator[int]) -> FleetLayout:
    present = {address.name for address in layout.clusters}
    names = [name for name in requested.names if name not in present]
    if not requested.names:
        names = [f"cluster{number}" for number in range(len(layout.clusters) + 1, count + 1)]
    taken = {address.port for address in layout.addresses}  # the port is free just now
    others = (port for port in ports if port not in taken)
    numbered = enumerate(names, len(layout.clusters) + 1)
    added = tuple(_address(name, number, requested, others) for number, name in numbered)
    return msgspec.structs.replace(layout, clusters=(*layout.clusters, *added))


def _address(name: str, offset: int, requested: LayoutRequest, ports: Iterator[int]) -> ControlPlaneAddress:
    if requested.port is None:
        return ControlPlaneAddress(name, next(ports))
    if requested.port + offset > LAST_PORT:
        raise OperationRefused(f"there is no port {requested.port + offset} for {name}: give a smaller --port")
    return ControlPlaneAddress(name, requested.port + offset)


def free_ports() -> Iterator[int]:
    """Yield free loopback ports, each once; `OperationRefused` when there is none.

    The system never assigns these to outgoing connections: a free port stays free, also after a restart.
    """
    start = SystemRandom().randrange(len(PORT_RANGE))  # fleets that start at once do not meet
    yield from filter(_is_free, [*PORT_RANGE[start:], *PORT_RANGE[:start]])
    first, last = PORT_RANGE[0], PORT_RANGE[-1]
    raise OperationRefused(f"no port between {first} and {last} is free: choose others with --port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def default_data_directory(environment: dict[str, str] | None = None) -> Path:
    """Return the default folder of a fleet: in the user's state directory (XDG)."""
    env = os.environ if environment is None else environment
    state = env.get("XDG_STATE_HOME") or ""
    base = Path(state) if state.startswith("/") else Path(env.get("HOME") or "~").expanduser() / ".local" / "state"
    return base / "watchword"


class FleetDirectory(Struct, frozen=True):
    """Files of one fleet. `lock` it before use."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig: a context for the hub, which is the current one, and one for each cluster."""
        return self.path / "kubeconfig"

    def recorded(self) -> FleetLayout | None:
        try:
            return read_layout((self.path / LAYOUT_FILE).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise InvalidInput(f"{self.path / LAYOUT_FILE} cannot be read: {(cause.strerror or '').lower()}") from cause

    def record(self, layout: FleetLayout) -> None:
        """Keep the layout; a crash leaves the old one or the new one."""
        write_private(self.path / LAYOUT_FILE, msgspec.json.format(msgspec.json.encode(layout)) + b"\n")

    def require_ours(self) -> None:
        """Return when the directory is empty or holds a fleet; `OperationRefused` for anything else."""
        if self.recorded() is not None:
            return
        # A crash before the mark was written leaves the lock and, at most, half a mark.
        others = [
            entry.name
            for entry in self.path.iterdir()
            if entry.name != LOCK and not entry.name.startswith(f".{LAYOUT_FILE}.")
        ]
        if others:
            raise OperationRefused(
                f"{self.path} is not the data directory of a fleet (it holds {min(others)}): choose another --data-dir"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory; raise `OperationRefused` when it is locked or foreign, else `InvalidInput`."""
        try:
            require_private_directory(self.path)
            self.require_ours()
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise InvalidInput(f"{self.path} cannot be used: {(cause.strerror or 'unknown').lower()}") from cause
        try:
            if not _try_lock(descriptor):
                raise OperationRefused(
                    f"a fleet already runs in {self.path} (process {_holder(descriptor) or 'unknown'}): stop it with "
                    f"`watchword down --data-dir {self.path}`, or choose another --data-dir"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def discard_failed_start(folder: FleetDirectory) -> Iterator[None]:
    """Remove what a first start made that was refused before it served anything; the folder is locked."""
    is_new = folder.recorded() is None
    try:
        yield
    except (OperationRefused, InvalidInput):
        if is_new and not folder.kubeconfig.exists():
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def stop_running_fleet(folder: FleetDirectory, patience: timedelta) -> int:
    """Stop the process that runs a fleet and wait for it; return its id, 0 when none runs."""
    try:
        descriptor = os.open(folder.path / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    except OSError as cause:
        raise InvalidInput(f"{folder.path} cannot be used: {(cause.strerror or 'unknown').lower()}") from cause
    try:
        if _try_lock(descriptor):
            return 0
        holder = _holder(descriptor)
        if not holder:
            raise NotReady("the fleet is just starting: run the command again in a moment")
        with suppress(ProcessLookupError):
            os.kill(holder, signal.SIGTERM)
        ends = time.monotonic() + patience.total_seconds()
        while not _try_lock(descriptor):
            if time.monotonic() > ends:
                raise NotReady(
                    f"process {holder} has not stopped: look at {folder.log}, or end it with kill -9 {holder}"
                )
            time.sleep(POLL_INTERVAL)
        return holder
    finally:
        os.close(descriptor)


def remove_fleet(folder: FleetDirectory) -> bool:
    """Remove a fleet's data; False when there is none. Raise `OperationRefused` when it runs or is foreign."""
    if not folder.path.exists():
        return False
    with folder.lock():
        shutil.rmtree(folder.path)
    return True


@contextmanager
def temporary_fleet_directory() -> Iterator[FleetDirectory]:
    """Make a directory for one run; those of runs that were killed are removed as well."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{EPHEMERAL_PREFIX}*"):
        with suppress(AdminError, StoreOpenError, OSError):  # another run's, or half gone: not ours to touch
            if _is_own_folder(leftover) and FleetDirectory(leftover).recorded() is not None:
                remove_fleet(FleetDirectory(leftover))
    path = Path(tempfile.mkdtemp(prefix=EPHEMERAL_PREFIX))
    try:
        yield FleetDirectory(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.isdigit() else 0
