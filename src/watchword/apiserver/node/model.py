"""Types of the process node: launches, containers, probes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from watchword.api.meta import ObjectKey
from watchword.api.sensitive import HiddenFields

NODE_NAME = "watchword"


class Workloads(Struct, frozen=True):
    """What containers of a node may run: one program, under these names of its image and with these arguments."""

    images: tuple[str, ...]
    commands: tuple[str, ...]  # first arguments
    environment: Mapping[str, str] = field(default_factory=dict)  # of every container, and not its own to change


class NodeSettings(Struct, frozen=True):
    """What the operator of the control plane decides about its node."""

    folder: Path  # where pods find their files; 0700
    host: str  # where pods reach the API server
    port: int
    workloads: Workloads
    name: str = NODE_NAME


class Launch(HiddenFields, frozen=True):
    """One container, ready to be run: no variable and no mount left to resolve."""

    hidden = ("environment",)

    pod: ObjectKey
    container: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    root: Path  # what the container knows as `/`
    log: Path


class HttpProbe(Struct, frozen=True):
    """A probe of a container; any response from 200 to 399 is a success."""

    host: str
    port: int
    path: str
    timeout: float
    delay: float = 0
    period: float = 10
    failure_threshold: int = 3


class Running(Protocol):
    """A container at work."""

    async def wait(self) -> int:
        """Return the exit code once it has ended; 128 and the number of a signal that ended it."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    async def probe(self, probe_spec: HttpProbe) -> bool: ...


class Runner(Protocol):
    """Runs containers: as processes, or as tasks of a fleet in one loop."""

    async def start(self, launch: Launch) -> Running:
        """Start one; raises OSError when that cannot be."""
