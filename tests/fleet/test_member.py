"""A control plane that cannot start says what to do about it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from watchword.fleet.errors import FleetError, Refused, Unusable
from watchword.fleet.local.blueprint import Place
from watchword.fleet.local.member import Member
from watchword.fleet.local.tasks import TaskRunner
from watchword.runtime.clock import SystemClock

pytestmark = [pytest.mark.real_time]


def a_member(folder: Path, *, port: int = 1, in_memory: bool = False) -> Member:
    return Member(Place("hub", port), folder, SystemClock(), TaskRunner({}), in_memory)


@pytest.mark.parametrize(
    ("in_memory", "advice"),
    [
        pytest.param(False, "begin anew on other ports with `watchword reset`", id="kept"),
        pytest.param(True, "give another --port", id="in memory"),
    ],
)
async def test_a_port_of_another_program_is_named(tmp_path: Path, in_memory: bool, advice: str) -> None:  # noqa: FBT001 - a column
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            Refused, match=f"port {port} of hub is taken by another program: stop that one, or {advice}"
        ):
            await a_member(tmp_path / "hub", port=port, in_memory=in_memory).start()


@pytest.mark.parametrize(
    ("cause", "kind", "sentence"),
    [
        pytest.param(
            PermissionError(13, "Permission denied"),
            Refused,
            "port 1 of hub is for the administrator",
            id="a small port",
        ),
        pytest.param(OSError(28, "No space left on device"), Unusable, "choose another --data-dir", id="a full disk"),
    ],
)
def test_explain(tmp_path: Path, cause: OSError, kind: type[FleetError], sentence: str) -> None:
    explained = a_member(tmp_path).explain(cause)

    assert isinstance(explained, kind)
    assert sentence in str(explained)
