"""A fleet's folder is ours, private, and used by one process at a time."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from watchword.admin.errors import InvalidInput, OperationRefused
from watchword.apiserver.store.model import StoreOpenError
from watchword.local.data_directory import (
    PORT_RANGE,
    ControlPlaneAddress,
    FleetDirectory,
    FleetLayout,
    LayoutRequest,
    choose_layout,
    default_data_directory,
    free_ports,
    remove_fleet,
    stop_running_fleet,
    temporary_fleet_directory,
)

TWO = FleetLayout(
    ControlPlaneAddress("hub", 7000), (ControlPlaneAddress("cluster1", 7001), ControlPlaneAddress("cluster2", 7002))
)


FOLDER = Path("/home/me/fleet")


ports = count(9000)


@pytest.mark.parametrize(
    ("recorded", "requested", "names", "hub_port"),
    [
        pytest.param(
            None, LayoutRequest(3, 7000), ["cluster1", "cluster2", "cluster3"], 7000, id="three on given ports"
        ),
        pytest.param(None, LayoutRequest(None, 7000), ["cluster1", "cluster2"], 7000, id="two by default"),
        pytest.param(None, LayoutRequest(0, 7000), [], 7000, id="a hub alone"),
        pytest.param(TWO, LayoutRequest(), ["cluster1", "cluster2"], 7000, id="as it was"),
        pytest.param(TWO, LayoutRequest(3, 7000), ["cluster1", "cluster2", "cluster3"], 7000, id="one more"),
        pytest.param(None, LayoutRequest(None, 7000, names=("b", "a")), ["b", "a"], 7000, id="by name"),
        pytest.param(
            TWO,
            LayoutRequest(names=("cluster2", "edge", "cluster1")),
            ["cluster1", "cluster2", "edge"],
            7000,
            id="one more by name",
        ),
    ],
)
def test_choose_blueprint(
    recorded: FleetLayout | None, requested: LayoutRequest, names: list[str], hub_port: int
) -> None:
    chosen = choose_layout(recorded, requested, ports, FOLDER)

    assert [address.name for address in chosen.clusters] == names
    assert chosen.hub.port == hub_port
    assert len({address.port for address in chosen.addresses}) == len(chosen.addresses)


@pytest.mark.parametrize(
    ("recorded", "requested", "why"),
    [
        pytest.param(TWO, LayoutRequest(1), "has 2 clusters", id="fewer than there are"),
        pytest.param(TWO, LayoutRequest(1), "`watchword reset --data-dir /home/me/fleet`", id="the fleet is named"),
        pytest.param(TWO, LayoutRequest(None, 6443), "listens on port 7000", id="another port for a hub that is known"),
        pytest.param(TWO, LayoutRequest(names=("cluster1", "edge")), "has the cluster cluster2", id="one is not named"),
        pytest.param(None, LayoutRequest(2, 65534), "no port 65536", id="beyond the last port"),
        pytest.param(TWO, LayoutRequest(registration_auth="grpc"), "register otherwise", id="another driver"),
    ],
)
def test_contradictory_options_are_refused(recorded: FleetLayout | None, requested: LayoutRequest, why: str) -> None:
    with pytest.raises(OperationRefused, match=why):
        choose_layout(recorded, requested, ports, FOLDER)


def test_free_ports_are_free_each_once_and_of_those_that_no_connection_gets() -> None:
    port = next(free_ports())
    found: list[int] = []

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        with pytest.raises(OperationRefused, match="no port between 20000 and 29999 is free"):
            found.extend(free_ports())

    assert len(set(found)) == len(found) > 1000
    assert set(found) <= set(PORT_RANGE) - {port}


def test_a_new_cluster_is_given_no_port_of_the_others() -> None:
    wanted = iter([7001, 7000, 7005])

    grown = choose_layout(TWO, LayoutRequest(3), wanted, FOLDER)

    assert grown.clusters[-1] == ControlPlaneAddress("cluster3", 7005)


def test_server_of_a_driver_has_a_port_of_its_own_that_stays() -> None:
    wanted = iter([7001, 7000, 7002, 7002, 7005])
    requested = LayoutRequest(1, 7001, registration_auth="grpc", needs_server_port=True)

    chosen = choose_layout(None, requested, wanted, FOLDER)

    assert (chosen.registration_auth, chosen.server_port) == ("grpc", 7000)
    assert choose_layout(chosen, LayoutRequest(), ports, FOLDER) == chosen
    assert choose_layout(TWO, LayoutRequest(registration_auth="csr"), ports, FOLDER) == TWO


def test_blueprint_is_kept(tmp_path: Path) -> None:
    folder = FleetDirectory(tmp_path / "fleet")

    with folder.lock():
        folder.record(TWO)

    assert folder.recorded() == TWO


def test_second_claim_is_refused_and_names_the_first(tmp_path: Path) -> None:
    folder = FleetDirectory(tmp_path / "fleet")

    with folder.lock(), pytest.raises(OperationRefused, match=f"process {os.getpid()}"), folder.lock():
        pass


def test_claim_follows_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    path.mkdir(mode=0o700)
    (path / "lock").write_text("1")
    (path / ".fleet.json.half").write_text("{")

    with FleetDirectory(path).lock():
        assert (path / "lock").read_text() == str(os.getpid())


def test_foreign_folder_is_neither_used_nor_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "letters.txt").write_text("dear friend")
    folder = FleetDirectory(tmp_path)

    with pytest.raises(OperationRefused, match=r"holds letters\.txt"), folder.lock():
        pass
    with pytest.raises(OperationRefused):
        remove_fleet(folder)

    assert (tmp_path / "letters.txt").exists()


def test_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    with pytest.raises(StoreOpenError, match="chmod 700"), FleetDirectory(tmp_path).lock():
        pass


def test_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises((InvalidInput, StoreOpenError)), FleetDirectory(tmp_path / "file").lock():
        pass


def test_running_fleet_is_not_removed(tmp_path: Path) -> None:
    folder = FleetDirectory(tmp_path / "fleet")

    with folder.lock(), pytest.raises(OperationRefused, match="already runs"):
        remove_fleet(folder)


def test_removal_of_nothing_is_no_failure(tmp_path: Path) -> None:
    assert remove_fleet(FleetDirectory(tmp_path / "nothing")) is False


def test_nothing_is_stopped_where_nothing_runs(tmp_path: Path) -> None:
    folder = FleetDirectory(tmp_path / "fleet")
    with folder.lock():
        pass

    assert stop_running_fleet(folder, timedelta(seconds=1)) == 0
    assert stop_running_fleet(FleetDirectory(tmp_path / "nothing"), timedelta(seconds=1)) == 0


def test_leftovers_of_killed_runs_are_swept_and_living_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, living = (FleetDirectory(tmp_path / f"watchword-fleet-{name}") for name in ("dead", "living"))
    with dead.lock():
        dead.record(TWO)

    with living.lock():
        living.record(TWO)
        with temporary_fleet_directory() as folder:
            assert folder.path.exists()
            assert not dead.path.exists()
            assert living.path.exists()
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"HOME": "/home/ada"}, "/home/ada/.local/state/watchword", id="the user's state"),
        pytest.param({"HOME": "/home/ada", "XDG_STATE_HOME": "/state"}, "/state/watchword", id="where XDG says"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "state"}, "/h/.local/state/watchword", id="XDG must be absolute"),
    ],
)
def test_default_folder(environment: dict[str, str], expected: str) -> None:
    assert default_data_directory(environment) == Path(expected)
