"""Counts the files that a reader opens to follow five flows: `python -m tools.trace_flows [-v]`.

How it counts:

- Four flows are tests of the suite, each run alone in a new process on the embedded control plane; what is recorded is
  the body of the test. The fifth is one PATCH on an idle embedded control plane; what is recorded is that request.
- A file counts when one of its functions was entered. Executing a module or a class body at import does not count.
- Files of the general packages (`GENERAL`) are left out, and those of the embedded control plane, except in the flow
  that is about it. What is left are the domain files of a flow. They are counted without and with `credentials`, the
  life of a credential that all pillars share: without it is what a flow has of its own. The targets are older than the
  package; part of what it holds was then in packages that counted.
- The files are put in the order of first entry. A switch is a pair of neighbours in different packages. A package is a
  folder of `src/watchword`.
- In the flow of the embedded control plane, a package is any folder below `apiserver`, and the order is that of the
  functions instead of the files, because one request is followed function by function.

Tests are named by their functions alone, so a flow is found again after its test or the modules have moved.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import CodeType, FrameType

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, NAMESPACES
from watchword.testing.credentials import ADMIN, ADMIN_GROUPS
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.virtual_time import VirtualLoop

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "watchword"
CONTROL_PLANE = "apiserver"
GENERAL = frozenset({"api", "pki", "kube", "http", "runtime", "cel", "testing"})
SHARED = "credentials"
IDLE = 60.0  # virtual seconds until controllers of the control plane have nothing left to do


@dataclass(frozen=True)
class Flow:
    """A flow, the test that runs it (empty: the PATCH), and the largest numbers that are wanted."""

    title: str
    test: str
    files: int
    switches: int


FLOWS = (
    Flow("csr join, agent and hub", "test_cluster_that_no_list_approves_waits_for_an_administrator", 30, 10),
    Flow("the same and an add-on token", "test_every_step_is_taken_by_the_identity_that_the_design_names", 45, 14),
    Flow("managed account to consumer", "test_every_token_and_every_change_is_seen", 22, 6),
    Flow("pull secret", "test_new_account_gets_a_pull_secret_with_a_bound_token", 17, 0),
    Flow("PATCH of a ConfigMap", "", 35, 20),
)


@dataclass
class Trace:
    """Records the functions of the package in the order in which they are entered for the first time."""

    entered: dict[CodeType, None] = field(default_factory=dict)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record meanwhile, in this thread."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Record the body of the test."""
        with self.recording():
            yield

    def paths(self) -> list[str]:
        """Return the file of each function, from the root of the package."""
        files = (Path(code.co_filename) for code in self.entered if code.co_name != "<module>")
        return [file.relative_to(PACKAGE).as_posix() for file in files if file.is_relative_to(PACKAGE)]

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.entered.setdefault(frame.f_code)


@dataclass(frozen=True)
class Count:
    """The domain files of a flow in the order of first entry, and the switches between packages."""

    files: tuple[str, ...]
    switches: int
    files_with_shared: int
    switches_with_shared: int


def count_domain(paths: list[str]) -> Count:
    """Count the domain files of a flow that is not about the control plane."""
    files = [path for path in dict.fromkeys(paths) if "/" in path and top(path) not in GENERAL | {CONTROL_PLANE}]
    own = [path for path in files if top(path) != SHARED]
    return Count(tuple(own), switches(own, top), len(files), switches(files, top))


def count_control_plane(paths: list[str]) -> Count:
    """Count the files of the embedded control plane."""
    entered = [path for path in paths if top(path) == CONTROL_PLANE]
    files, found = tuple(dict.fromkeys(entered)), switches(entered, folder)
    return Count(files, found, len(files), found)


def top(path: str) -> str:
    """Return the package of a file."""
    return PurePosixPath(path).parts[0]


def folder(path: str) -> str:
    """Return the folder of a file."""
    return str(PurePosixPath(path).parent)


def switches(paths: list[str], package_of: Callable[[str], str]) -> int:
    """Count the neighbours in different packages."""
    return sum(package_of(one) != package_of(other) for one, other in pairwise(paths))


def trace(flow: Flow) -> Count:
    """Run a flow in this process and count."""
    if not flow.test:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return count_control_plane(runner.run(trace_patch()))
    found, printed = Trace(), io.StringIO()
    with redirect_stdout(printed):
        code = pytest.main(["--quiet", "-p", "no:cacheprovider", find_test(flow.test)], plugins=[found])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"the test of the flow {flow.title!r} failed:\n{printed.getvalue()}")
    return count_domain(found.paths())


def find_test(name: str) -> str:
    """Return the node of a test function, wherever it is."""
    definition = re.compile(rf"^(?:async )?def {name}\(", re.MULTILINE)
    (file,) = [path for path in (ROOT / "tests").rglob("test_*.py") if definition.search(path.read_text())]
    return f"{file}::{name}"


async def trace_patch() -> list[str]:
    """Return the file of each function that one PATCH of a ConfigMap enters."""
    found, key = Trace(), ObjectKey("traced", "settings")
    with tempfile.TemporaryDirectory() as place:
        async with open_embedded(Path(place), listening=False) as plane:
            client = plane.connect(ADMIN, ADMIN_GROUPS)
            await client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(key.namespace)))
            await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"a": "1"}))
            await asyncio.sleep(IDLE)
            with found.recording():
                await client.patch(CONFIG_MAPS, key, {"data": {"a": "2"}})
            await client.close()
    return found.paths()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Count the files of five flows.")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the files, too")
    verbose = parser.parse_args().verbose
    print(f"{'flow':30} {'files':>5} {'target':>6} {'switches':>9} {'target':>6}   with {SHARED}: files, switches")
    with ProcessPoolExecutor(max_workers=1, max_tasks_per_child=1) as processes:  # no flow finds the caches of another
        for flow, count in zip(FLOWS, processes.map(trace, FLOWS), strict=True):
            wanted = (f"≤ {flow.files}", f"≤ {flow.switches}")
            shared = f"{count.files_with_shared:25} {count.switches_with_shared:9}"
            print(f"{flow.title:30} {len(count.files):5} {wanted[0]:>6} {count.switches:9} {wanted[1]:>6}  {shared}")
            if verbose:
                print(*(f"    {path}" for path in count.files), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
