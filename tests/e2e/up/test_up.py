"""One command brings up a fleet; it is stopped, killed and resumed at any moment without harm."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from watchword.api.conditions import find_condition
from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339
from watchword.cli.main import run as command
from watchword.credentials.credential_secret import decode_data
from watchword.kube.connect import connect
from watchword.registration.aws_irsa.options import READY
from watchword.runtime.event_loop import run

Start = Callable[..., Any]
pytestmark = [pytest.mark.timeout(300)]
STEPS = ["planes", "hub", "token", "discovery", "join", "acceptance", "members", "add-on", "account", "pull-secret"]


def identities(kubeconfig: Path) -> dict[str, Any]:
    """Return what must survive a restart: the clusters' identities, and every request ever made."""

    async def read() -> dict[str, Any]:
        hub = connect(kubeconfig, "hub")
        found: dict[str, Any] = {
            "clusters": {obj["metadata"]["uid"] for obj in (await hub.list(MANAGED_CLUSTERS)).items},
            "requests": {obj["metadata"]["uid"] for obj in (await hub.list(CERTIFICATE_SIGNING_REQUESTS)).items},
        }
        await hub.close()
        for name in ("cluster1", "cluster2"):
            client = connect(kubeconfig, name)
            secret = await client.get(SECRETS, ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET))
            found[name] = decode_data(secret)["tls.crt"]
            await client.close()
        return found

    return run(read())


def iam_identities(kubeconfig: Path) -> dict[str, Any]:
    """Return what must survive a restart of a fleet by IAM: clusters, roles, and that no certificate was requested."""

    async def read() -> dict[str, Any]:
        hub = connect(kubeconfig, "hub")
        clusters = (await hub.list(MANAGED_CLUSTERS)).items
        found = {
            "clusters": {obj["metadata"]["uid"] for obj in clusters},
            "roles": {condition.message for obj in clusters if (condition := find_condition(obj, READY)) is not None},
            "requests": {obj["metadata"]["uid"] for obj in (await hub.list(CERTIFICATE_SIGNING_REQUESTS)).items},
        }
        await hub.close()
        return found

    return run(read())


@pytest.mark.slow
def test_a_renewal_is_printed_with_the_time_at_which_it_happened(
    start_up: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = start_up("--data-dir", str(tmp_path / "fleet"), "--clusters", "1")
    fleet.until("ready")
    before = rfc3339(datetime.now(UTC))

    assert command(["rotate", "cluster", "cluster1", "--kubeconfig", str(tmp_path / "fleet" / "kubeconfig")]) == 0

    message = capsys.readouterr().out.strip().removeprefix("cluster cluster1: ")
    assert fleet.until("happening", about="cluster1", what=message)["at"] >= before
    assert fleet.interrupt() == 0


def test_a_fleet_comes_up_in_memory_and_leaves_nothing(start_up: Start, tmp_path: Path) -> None:
    fleet = start_up("--ephemeral", "--exit", "--timeout", "5m")

    news = list(fleet.news())

    assert fleet.ended() == 0
    assert [each["step"] for each in news if each["event"] == "step" and each["state"] == "done"] == STEPS
    ready = next(each for each in news if each["event"] == "ready")
    assert [(row["name"], row["available"]) for row in ready["clusters"]] == [("cluster1", True), ("cluster2", True)]
    addons = {(row["name"], row["cluster"], row["driver"], row["available"]) for row in ready["addOns"]}
    ways = (("cluster1", "token", True), ("cluster2", "csr", True))
    assert addons == {(name, *way) for name in ("managed-serviceaccount", "sample-addon") for way in ways}
    assert {row["health"] for row in ready["credentials"]} == {"Good"}
    assert list(tmp_path.glob("watchword-fleet-*")) == []


@pytest.mark.slow
def test_fleet_registers_over_grpc_and_continues_so(start_up: Start, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    first = start_up("--data-dir", str(folder), "--registration-auth", "grpc")
    ready = first.until("ready")
    before = identities(folder / "kubeconfig")
    assert first.interrupt() == 0

    again = start_up("--data-dir", str(folder))
    again.until("ready")

    assert [(row["name"], row["available"]) for row in ready["clusters"]] == [("cluster1", True), ("cluster2", True)]
    assert {row["driver"] for row in ready["addOns"]} == {"csr", "token"}
    assert identities(folder / "kubeconfig") == before
    assert again.interrupt() == 0


@pytest.mark.slow
def test_fleet_registers_by_iam_without_an_aws_account_and_continues_so(
    start_up: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto", reason="moto is not installed: pip install 'watchword[aws-emulator]'")
    monkeypatch.setenv("WATCHWORD_AWS_EMULATOR", f"{sys.executable} -m tests.emulators.aws")
    folder = tmp_path / "fleet"
    first = start_up("--data-dir", str(folder), "--registration-auth", "aws-irsa")
    ready = first.until("ready")
    before = iam_identities(folder / "kubeconfig")
    assert first.interrupt() == 0

    again = start_up("--data-dir", str(folder))
    returned = again.until("ready")

    for shown in (ready, returned):
        assert [(row["name"], row["available"]) for row in shown["clusters"]] == [
            ("cluster1", True),
            ("cluster2", True),
        ]
        assert {row["driver"] for row in shown["addOns"]} == {"token"}
        assert {row["health"] for row in shown["credentials"]} == {"Good"}
    assert before["requests"] == set()
    assert iam_identities(folder / "kubeconfig") == before
    assert again.interrupt() == 0


@pytest.mark.slow
def test_fleet_continues_where_it_stopped(start_up: Start, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    first = start_up("--data-dir", str(folder))
    first.until("ready")
    before = identities(folder / "kubeconfig")
    assert first.interrupt() == 0

    again = start_up("--data-dir", str(folder))
    again.until("ready")

    assert identities(folder / "kubeconfig") == before
    assert again.interrupt() == 0


@pytest.mark.slow
def test_killed_at_any_step_it_comes_up_healthy_the_next_time(start_up: Start, tmp_path: Path) -> None:
    folder = str(tmp_path / "fleet")
    for step, state in (
        ("planes", "running"),
        ("hub", "running"),
        ("discovery", "running"),
        ("join", "running"),
        ("acceptance", "running"),
        ("members", "running"),
        ("add-on", "running"),
        ("account", "running"),
        ("pull-secret", "running"),
    ):
        fleet = start_up("--data-dir", folder)
        fleet.until("step", step=step, state=state)
        fleet.kill()

    fleet = start_up("--data-dir", folder)
    ready = fleet.until("ready")

    assert ready["problems"] == 0
    assert (len(ready["clusters"]), len(ready["addOns"])) == (2, 4)
    requests = identities(tmp_path / "fleet" / "kubeconfig")["requests"]
    assert len(requests) == 4  # one for each cluster, one for each add-on by certificate: none was made twice
    assert fleet.interrupt() == 0


@pytest.mark.slow
def test_ctrl_c_at_any_step_ends_it_in_order_and_the_next_start_goes_on(start_up: Start, tmp_path: Path) -> None:
    for step in ("planes", "hub", "join", "members"):
        fleet = start_up("--data-dir", str(tmp_path / "fleet"))
        fleet.until("step", step=step, state="running")

        assert fleet.interrupt() == 0
        assert fleet.errors.read_text() == ""

    assert start_up("--data-dir", str(tmp_path / "fleet"), "--exit", "--timeout", "5m").ended() == 0


def test_a_second_one_on_the_same_folder_is_refused(start_up: Start, tmp_path: Path) -> None:
    folder = str(tmp_path / "fleet")
    first = start_up("--data-dir", folder, "--clusters", "0")
    first.until("ready")

    second = start_up("--data-dir", folder)

    assert second.ended() == 4
    assert f"a fleet already runs in {folder} (process {first.process.pid})" in second.errors.read_text()
    assert first.interrupt() == 0


def test_a_port_that_is_taken_is_named(start_up: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        fleet = start_up("--data-dir", str(tmp_path / "fleet"), "--port", str(port), "--exit")

        assert fleet.ended() == 4
    assert f"port {port} of hub is taken by another program: stop that one, or give another --port" in (
        fleet.errors.read_text()
    )
    assert not (tmp_path / "fleet").exists()


def test_start_that_takes_too_long_is_reported(start_up: Start, tmp_path: Path) -> None:
    fleet = start_up("--data-dir", str(tmp_path / "fleet"), "--exit", "--timeout", "10ms")

    assert fleet.ended() == 3
    said = fleet.errors.read_text()
    assert "not healthy within 10ms: start the control planes" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("folder", "code", "why"),
    [
        pytest.param("letters", 4, "is not the data directory of a fleet", id="folder of another program"),
        pytest.param("open", 1, "is open to other users", id="a folder that others can read"),
        pytest.param(
            "theirs",
            1,
            "belongs to another user",
            id="a folder of another user",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user"),
        ),
        pytest.param("file/fleet", 1, "cannot use", id="no folder can be made there"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(
    start_up: Start, tmp_path: Path, folder: str, code: int, why: str
) -> None:
    (tmp_path / "letters").mkdir(mode=0o700)
    (tmp_path / "letters" / "dear.txt").write_text("friend")
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "file").write_text("")
    (tmp_path / "theirs").mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 12345, 12345)

    fleet = start_up("--data-dir", str(tmp_path / folder), "--exit")

    assert fleet.ended() == code
    assert why in fleet.errors.read_text()


@pytest.mark.slow
def test_down_stops_it_and_reset_removes_it(start_up: Start, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    fleet = start_up("--data-dir", str(folder), "--clusters", "1")
    fleet.until("ready")

    refused = _watchword("reset", "--yes", "--data-dir", str(folder))
    down = _watchword("down", "--data-dir", str(folder))
    reset = _watchword("reset", "--yes", "--data-dir", str(folder))

    assert (refused.returncode, down.returncode, reset.returncode) == (4, 0, 0)
    assert down.stdout == f"stopped the fleet in {folder}\n"
    assert fleet.ended() == 0
    assert not folder.exists()


def _watchword(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "watchword", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
