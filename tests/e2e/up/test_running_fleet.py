"""A running fleet as a terminal and kubectl show it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CLUSTER_MANAGERS, LEASES, PODS, VALIDATING_ADMISSION_POLICY_BINDINGS
from watchword.cli.main import run
from watchword.kube.connect import connect
from watchword.runtime.event_loop import run as run_async

pytestmark = [pytest.mark.timeout(300)]
ON_THIS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Takes the terminal for its own, so that Ctrl-C is heard, and becomes another program."""
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """`watchword up` on a terminal of a given size; `page` is what it shows."""

    def __init__(self, folder: Path, columns: int, rows: int, *flags: str) -> None:
        self.descriptor, theirs = pty.openpty()
        self.resize(columns, rows)  # before it is requested
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_THIS_TERMINAL, "-m", "watchword", "up", "--data-dir", str(folder), *flags],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", "PYTHONUTF8": "1"},
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end in the midst of a character

    def resize(self, columns: int, rows: int) -> None:
        """Make the terminal larger or smaller."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text: str) -> str:
        """Read on until the terminal was sent some text; return everything so far."""
        while text not in self.raw:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:
                data = b""
            assert data, f"ended before {text!r}: {self.raw[-2000:]}"
            self.raw += self._decoder.decode(data)
        return self.raw

    def page(self) -> list[str]:
        """Return the lines of the last picture, without colors."""
        last = re.split(r"\x1b\[\d+A\r|\x1b\[2J\x1b\[H", self.raw)[-1]
        return [ANSI.sub("", line).rstrip("\r") for line in last.split("\n")]

    def interrupt(self) -> int:
        """Press Ctrl-C and return the exit code."""
        os.write(self.descriptor, b"\x03")
        self.read_until("stopped;")
        code = self.process.wait()
        os.close(self.descriptor)
        return code


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a fleet that runs while the tests of this module do."""
    folder = tmp_path_factory.mktemp("up") / "fleet"
    terminal = Terminal(folder, 120, 40)
    terminal.read_until("ready in")
    yield folder
    assert terminal.interrupt() == 0


SIZES = (
    (80, 24),
    pytest.param(120, 40, marks=pytest.mark.slow),
    pytest.param(40, 12, marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_the_picture_fits_the_terminal_and_shows_the_fleet(tmp_path: Path, columns: int, rows: int) -> None:
    terminal = Terminal(tmp_path / "fleet", columns, rows)
    terminal.read_until("ready in")
    terminal.read_until("TRY")

    page = terminal.page()

    assert len(page) <= rows
    assert max(len(line) for line in page) <= columns
    assert any(line.startswith("cluster2") for line in page) or rows == 12
    assert terminal.interrupt() == 0
    assert terminal.raw.count("\x1b[?25l") == terminal.raw.count("\x1b[?25h") == 1  # the cursor is back


@pytest.mark.slow
def test_the_picture_follows_the_size_of_the_terminal(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "fleet", 80, 24, "--clusters", "1")
    terminal.read_until("ready in")

    for columns, rows in ((50, 16), (120, 40), (20, 5), (80, 24)):
        terminal.raw = ""
        terminal.resize(columns, rows)
        terminal.read_until("\x1b[2J\x1b[H")
        terminal.read_until("\x1b[J")
        assert max(len(line) for line in terminal.page()) <= columns

    assert terminal.interrupt() == 0


def test_colors_are_left_out_when_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(tmp_path / "fleet", 80, 24, "--clusters", "0")

    shown = terminal.read_until("ready in")

    assert re.findall(r"\x1b\[\d+m", shown) == []
    assert terminal.interrupt() == 0


def test_kubectl_lists_the_clusters(data_directory: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")

    listed = subprocess.run(
        [kubectl, "--kubeconfig", str(data_directory / "kubeconfig"), "get", "managedclusters"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert [line.split()[:4] for line in listed.stdout.splitlines()[1:]] == [
        ["cluster1", "true", "True", "True"],
        ["cluster2", "true", "True", "True"],
    ]


def test_the_hub_runs_as_its_cluster_manager_says(data_directory: Path) -> None:
    async def read() -> tuple[Object, list[Object], Object]:
        hub = connect(data_directory / "kubeconfig", "hub")
        manager = await hub.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))
        pods = (await hub.list(PODS, namespace=HUB_NAMESPACE, labels="app=cluster-manager-controller")).items
        lease = await hub.get(LEASES, ObjectKey(HUB_NAMESPACE, "watchword-hub-lock"))
        await hub.close()
        return manager, pods, lease

    manager, pods, lease = run_async(read())

    assert is_true(manager, "Available")
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    assert [pod["metadata"]["name"] for pod in pods] == [lease["spec"]["holderIdentity"]]


def test_the_rules_of_the_hub_are_admission_policies(data_directory: Path) -> None:
    async def read() -> list[Object]:
        hub = connect(data_directory / "kubeconfig", "hub")
        found = await hub.list(VALIDATING_ADMISSION_POLICY_BINDINGS)
        await hub.close()
        return found.items

    assert {row["metadata"]["name"] for row in run_async(read())} == {
        "agent-tokens.watchword.dev",
        "certificate-requests.watchword.dev",
        "managed-serviceaccount-secrets.watchword.dev",
        "managedcluster-acceptance.watchword.dev",
        "managedclustersetbinding.watchword.dev",
        "manifestwork-executor.watchword.dev",
    }


def test_status_shows_every_credential(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--kubeconfig", str(data_directory / "kubeconfig")]) == 0
    text = capsys.readouterr().out
    assert run(["status", "-o", "json", "--kubeconfig", str(data_directory / "kubeconfig")]) == 0
    document = orjson.loads(capsys.readouterr().out)

    kinds = {
        "cluster certificate",
        "add-on token",
        "add-on certificate",
        "join token",
        "hub authority",
        "account token",
    }
    assert {row["kind"] for row in document["credentials"]} == kinds
    assert all(kind in text for kind in kinds)


def test_status_of_a_managed_cluster_says_that_it_is_no_hub(
    data_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--kubeconfig", str(data_directory / "kubeconfig"), "--context", "cluster2"]) == 4

    assert "this cluster is not a hub" in capsys.readouterr().err


def test_pull_secrets_of_a_managed_cluster_are_listed(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pull-secrets", "list", "--kubeconfig", str(data_directory / "kubeconfig"), "--context", "cluster1"]
    assert run([*arguments, "-n", "default", "-o", "json"]) == 0

    rows = orjson.loads(capsys.readouterr().out)["items"]
    assert [(row["serviceAccount"], row["health"], row["registries"]) for row in rows] == [
        ("default", "healthy", ["registry.example:5000"])
    ]


def test_status_stays_and_shows_changes(data_directory: Path) -> None:
    kubeconfig = str(data_directory / "kubeconfig")
    watching = subprocess.Popen(
        [sys.executable, "-m", "watchword", "status", "--watch", "--kubeconfig", kubeconfig],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stdout is not None
    with watching.stdout as shown:
        assert any(line.startswith("hub authority") for line in shown)

        assert run(["rotate", "cluster", "cluster2", "--no-wait", "--kubeconfig", kubeconfig]) == 0

        assert any(line.startswith("hub authority") for line in shown)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0


def test_forecast_names_what_ends_within_two_days(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forecast", "--days", "2", "-o", "json", "--kubeconfig", str(data_directory / "kubeconfig")]) == 0

    outlooks = orjson.loads(capsys.readouterr().out)

    # All live a day and were made within a moment: which one ends first depends on the machine.
    renewed = {"join token": False, "add-on token": True, "account token": True}
    assert {row["kind"]: row["renewalAnnounced"] for row in outlooks} == renewed
    assert [row["expires"] for row in outlooks] == sorted(row["expires"] for row in outlooks)


@pytest.mark.parametrize(("context", "component"), [("hub", "hub"), ("hub", "operator"), ("cluster1", "agent")])
def test_each_pod_has_a_log_of_its_own(
    data_directory: Path, context: str, component: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", component, "--kubeconfig", str(data_directory / "kubeconfig"), "--context", context]) == 0

    lines = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0]["message"], lines[0]["command"]) == ("container started", component)


@pytest.mark.parametrize("context", ["hub", "cluster1"])
def test_doctor_finds_nothing(data_directory: Path, context: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--kubeconfig", str(data_directory / "kubeconfig"), "--context", context])

    shown = capsys.readouterr().out
    assert code == 0, shown
    assert {line.split()[0] for line in shown.splitlines()} == {"ok"}


@pytest.mark.parametrize(
    "whom",
    [
        pytest.param(["cluster", "cluster1"], id="a cluster"),
        pytest.param(["addon", "sample-addon", "--cluster", "cluster1"], id="a token"),
        pytest.param(["addon", "sample-addon", "--cluster", "cluster2"], id="an add-on's certificate"),
    ],
)
def test_rotate_renews_at_once(data_directory: Path, whom: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rotate", *whom, "--kubeconfig", str(data_directory / "kubeconfig")]) == 0

    assert "to be renewed at" in capsys.readouterr().out


def test_rotate_of_an_unknown_cluster_is_refused(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rotate", "cluster", "nobody", "--kubeconfig", str(data_directory / "kubeconfig")]) == 7

    assert "there is no cluster nobody" in capsys.readouterr().err
