"""A control plane that cannot start reports what to do."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from watchword.admin.errors import AdminError, InvalidInput, OperationRefused
from watchword.api.resources import NAMESPACES, SECRETS
from watchword.apiserver.instance import InstanceSettings
from watchword.apiserver.node.model import Launch
from watchword.local.control_plane import LocalControlPlane
from watchword.local.pods import RunningTask
from watchword.local.workloads import WORKLOADS
from watchword.runtime.clock import SystemClock
from watchword.testing.builders import a_secret

pytestmark = [pytest.mark.real_time]


class NoPods:
    """Runs no pods."""

    async def start(self, launch: Launch) -> RunningTask:
        raise OSError


def a_member(folder: Path, *, port: int = 1, in_memory: bool = False) -> LocalControlPlane:
    settings = InstanceSettings(folder, port=port, in_memory=in_memory, node=WORKLOADS, runner=NoPods())
    return LocalControlPlane("hub", settings, SystemClock())


def with_settings(member: LocalControlPlane, **settings: Path | None) -> LocalControlPlane:
    member.settings = replace(member.settings, **settings)
    return member


def a_key_file(folder: Path) -> Path:
    path = folder / "key"
    path.write_bytes(base64.b64encode(bytes(range(32))))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("in_memory", "advice"),
    [
        pytest.param(False, "begin anew with `watchword reset --data-dir ", id="kept"),
        pytest.param(True, "give another --port", id="in memory"),
    ],
)
async def test_a_port_of_another_program_is_named(tmp_path: Path, in_memory: bool, advice: str) -> None:  # noqa: FBT001 - a column
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            OperationRefused, match=f"port {port} of hub is taken by another program: stop that one, or {advice}"
        ):
            await a_member(tmp_path / "hub", port=port, in_memory=in_memory).start()


@pytest.mark.parametrize(
    ("cause", "kind", "sentence"),
    [
        pytest.param(
            PermissionError(13, "Permission denied"),
            OperationRefused,
            "port 1 of hub is for the administrator",
            id="a small port",
        ),
        pytest.param(
            OSError(28, "No space left on device"), InvalidInput, "is full: free some space", id="a full disk"
        ),
    ],
)
def test_explain(tmp_path: Path, cause: OSError, kind: type[AdminError], sentence: str) -> None:
    explained = a_member(tmp_path).explain_start_failure(cause)

    assert isinstance(explained, kind)
    assert sentence in str(explained)


async def test_secrets_are_encrypted_in_the_data_file(tmp_path: Path) -> None:
    member = with_settings(a_member(tmp_path / "hub", port=0), encryption_key_file=a_key_file(tmp_path))
    await member.start()

    await member.client.create(SECRETS, a_secret("mine", namespace="default", data={"password": "plain-canary-text"}))
    await member.instance.stop()

    kept = b"".join(path.read_bytes() for path in (tmp_path / "hub").glob("state.db*"))
    assert b"mine" in kept
    assert base64.b64encode(b"plain-canary-text") not in kept


async def test_key_file_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    key = a_key_file(tmp_path)
    key.chmod(0o644)

    with pytest.raises(InvalidInput, match=f"hub cannot be started: key file {key} is open to other users: run chmod"):
        await with_settings(a_member(tmp_path / "hub", port=0), encryption_key_file=key).start()


@pytest.mark.parametrize("audit", [pytest.param(True, id="switched on"), pytest.param(False, id="off")])
async def test_audit_log_lies_beside_the_data(tmp_path: Path, *, audit: bool) -> None:
    member = with_settings(
        a_member(tmp_path / "hub", port=0), audit_log=tmp_path / "hub" / "audit.log" if audit else None
    )
    await member.start()

    await member.client.list(NAMESPACES)
    await member.instance.stop()

    log = tmp_path / "hub" / "audit.log"
    assert log.exists() is audit
    assert not audit or b'"username":"kubernetes-admin"' in log.read_bytes()
