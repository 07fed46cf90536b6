"""Runs Kubernetes' own conformance tests against the embedded control plane."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.envtest import TEST_PACKAGES, provide, stop
from watchword.testing.kube_apiserver_backend import cache_folder

SELECTION = Path(__file__).parents[1] / "tests" / "conformance" / "kubernetes_e2e.yaml"
START_SECONDS = 30
RUN_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A group of tests that are not run, and why."""

    match: str
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which conformance tests are run."""

    sigs: tuple[str, ...]
    excluded: tuple[Exclusion, ...]

    @property
    def focus(self) -> str:
        """The regular expression of the tests to run."""
        return rf"\[sig-({'|'.join(self.sigs)})\].*\[Conformance\]"

    @property
    def skip(self) -> str:
        """The regular expression of the tests to leave out."""
        return "|".join(f"(?:{row.match})" for row in self.excluded)


def read_selection(path: Path = SELECTION) -> Selection:
    """Read which tests are run from the file that documents it."""
    content = yaml.safe_load(path.read_text())
    return Selection(tuple(content["sigs"]), tuple(Exclusion(**row) for row in content["excluded"]))


def main() -> None:
    """Build the test program when it is missing, run it, and print the count of passed and failed tests."""
    folder = cache_folder()
    provide(folder, [*TEST_PACKAGES, "kubectl"])
    with tempfile.TemporaryDirectory(prefix="watchword-conformance-") as work, embedded_plane(Path(work)) as kubeconfig:
        report = Path(work) / "report.json"
        output = run_tests(folder, kubeconfig, report)
        if not report.is_file():
            stop(f"the test program ended without a report:\n{output[-4000:]}")
        sys.exit(summarize(report))


@contextmanager
def embedded_plane(work: Path) -> Iterator[Path]:
    """Run `watchword apiserver` with a node, and yield the administrator's kubeconfig."""
    data = work / "data"
    command = [sys.executable, "-m", "watchword", "apiserver", f"--data-dir={data}", "--port=0", "--node"]
    with (work / "apiserver.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(data / "admin.kubeconfig", process)
            yield data / "admin.kubeconfig"
        finally:
            process.terminate()
            process.wait(timeout=START_SECONDS)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Return once the file exists; end the program when the process ends first or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not path.is_file():
        if process.poll() is not None or time.monotonic() > deadline:
            stop("`watchword apiserver` did not start")
        time.sleep(0.05)


def run_tests(folder: Path, kubeconfig: Path, report: Path) -> str:
    """Run the selected tests once and return what the test program printed."""
    selection = read_selection()
    command = [
        str(folder / "e2e.test"),
        f"--kubeconfig={kubeconfig}",
        "--provider=skeleton",
        "--allowed-not-ready-nodes=-1",
        "--dump-logs-on-failure=false",
        f"--kubectl-path={folder / 'kubectl'}",
        f"--ginkgo.focus={selection.focus}",
        f"--ginkgo.skip={selection.skip}",
        f"--ginkgo.json-report={report}",
        f"--ginkgo.timeout={RUN_SECONDS}s",
        "--ginkgo.no-color",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


def summarize(report: Path) -> int:
    """Print every failed test and the counts; return the exit code."""
    counts: Counter[str] = Counter()
    for spec in (spec for suite in json.loads(report.read_bytes()) for spec in suite["SpecReports"] or ()):
        state = spec["State"]
        if state in {"skipped", "pending"} or spec["LeafNodeType"] != "It":
            continue
        counts[state] += 1
        if state != "passed":
            name = " ".join([*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]])
            print(f"FAILED {name}\n  {(spec.get('Failure') or {}).get('Message', '')[:600]}")
    failed = counts.total() - counts["passed"]
    print(f"{counts['passed']} passed, {failed} failed")
    return 1 if failed or not counts["passed"] else 0


if __name__ == "__main__":
    main()
