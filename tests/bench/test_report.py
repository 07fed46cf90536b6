"""The benchmark report: which subjects are run, and how the table reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.report.readers import client_rows, large_hub_rows, plane_rows, rig_rows, small_hub_rows
from bench.report.rows import Circumstances, ReportRow, Skipped, render_report
from bench.report.selection import choose_subjects, read_subject_files
from bench.report.sources import SMALL
from bench.rig.__main__ import WORKLOADS

SUBJECTS = Path(__file__).parents[2] / "bench" / "subjects"
WHERE = Circumstances("2026-11-15 12:00 UTC", "Linux, 2 cores", "abc1234", "small")


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    """A folder with one binary of a peer."""
    program = tmp_path / "registration"
    program.touch(mode=0o755)
    return tmp_path


def places(peers: Path) -> dict[str, str]:
    return {"python": sys.executable, "bin": str(peers), "peers": str(peers)}


@pytest.mark.parametrize(
    ("workload", "chosen", "skipped"),
    [
        pytest.param("hub-accept", ["ocm", "watchword"], [], id="the peer's program is at hand"),
        pytest.param("addon-token-infra", ["watchword"], ["ocm"], id="the peer's program is missing"),
        pytest.param("account-fan-out", ["watchword"], [], id="the peer has no such workload"),
    ],
)
def test_report_runs_the_subjects_whose_programs_are_at_hand(
    peers: Path, workload: str, chosen: list[str], skipped: list[str]
) -> None:
    found, left_out = choose_subjects(read_subject_files(SUBJECTS), workload, places(peers))

    assert [one.subject.name for one in found] == chosen
    assert [one.subject for one in left_out] == skipped


def test_report_says_which_program_is_missing_and_where_it_belongs(peers: Path) -> None:
    _, [left_out] = choose_subjects(read_subject_files(SUBJECTS), "addon-token-infra", places(peers))

    assert left_out.reason == f"{peers}/addon is missing: put it into the folder that PEERS_BIN names"


def test_every_workload_has_small_parameters() -> None:
    assert set(SMALL) == set(WORKLOADS)


def test_row_of_a_peer_says_how_much_less_we_need() -> None:
    rows = [
        ReportRow("join", "k=4", "ocm", wall_ms=400.0, cpu_ms=50.0, memory_mib=100.0, requests=72.0),
        ReportRow("join", "k=4", "watchword", wall_ms=200.0, cpu_ms=40.0, memory_mib=50.0, requests=29.0),
    ]

    lines = render_report(WHERE, rows, []).splitlines()

    assert lines[-2:] == [
        "| join | k=4 | ocm | 400 | 50 | 100 | 72 | 0.50 | 0.80 | 0.50 | 0.40 |",
        "| join | k=4 | watchword | 200 | 40 | 50 | 29 |  |  |  |  |",
    ]


def test_figures_that_were_not_measured_are_empty_and_have_no_ratio() -> None:
    rows = [ReportRow("start", "", "kube-apiserver", memory_mib=300.0), ReportRow("start", "", "watchword", cpu_ms=2.0)]

    lines = render_report(WHERE, rows, []).splitlines()

    assert lines[-2] == "| start |  | kube-apiserver |  |  | 300 |  |  |  |  |  |"


def test_report_names_its_circumstances_and_what_was_not_run() -> None:
    text = render_report(WHERE, [], [Skipped("join", "ocm", "the run failed with code 1")])

    assert "2026-11-15 12:00 UTC; revision abc1234; Linux, 2 cores; SCALE=small." in text
    assert text.endswith("Not run:\n\n- join, ocm: the run failed with code 1\n")


def test_figures_of_the_rig_are_divided_by_its_objects() -> None:
    document = {
        "workload": "join",
        "subject": "ocm",
        "parameters": {"k": 4},
        "objects": 4,
        "wall_seconds": 2.0,
        "subject_cpu_seconds": 1.0,
        "subject_peak_mib": 80.0,
        "requests": {"hub": 30, "spoke": 10},
    }

    assert list(rig_rows(document)) == [ReportRow("join", "k=4", "ocm", 500.0, 250.0, 80.0, 10.0)]


def test_rates_of_control_planes_become_times() -> None:
    rows = {
        "create": {"unit": "/s", "figures": {"embedded": 1000.0}, "cpu": {"embedded": 500.0}},
        "cold start": {"unit": "s", "figures": {"kube-apiserver": 4.0}, "cpu": {"kube-apiserver": 9e6}},
        "memory": {"unit": "MiB", "figures": {"embedded": 60.0}, "cpu": {}},
    }

    assert list(plane_rows({"rows": rows})) == [
        ReportRow("control plane: create", "", "watchword", wall_ms=1.0, cpu_ms=0.5),
        ReportRow("control plane: cold start", "", "kube-apiserver", wall_ms=4000.0, cpu_ms=9000.0),
        ReportRow("control plane: memory", "", "watchword", memory_mib=60.0),
    ]


def test_processor_time_of_a_client_belongs_to_the_line_before_it() -> None:
    lines = [
        {"title": "GET", "unit": "/s", "figures": {"watchword": 2000.0}},
        {"title": "CPU", "unit": "µs", "figures": {"watchword": 100.0}},
    ]

    assert list(client_rows({"lines": lines})) == [ReportRow("client: GET", "", "watchword", wall_ms=0.5, cpu_ms=0.1)]


def test_large_hub_is_compared_with_bare_writes() -> None:
    figures = {
        "bare writes of one join, p50": 0.1,
        "join, p50": 0.4,
        "processor time of the hub for a cluster": 20.0,
        "memory of the hub, at its peak": 70.0,
        "requests of the hub for a cluster": 40.0,
    }

    assert list(large_hub_rows({"figures": figures, "size": {"clusters": 50}})) == [
        ReportRow("large hub: join", "clusters=50", "bare writes", wall_ms=100.0),
        ReportRow("large hub: join", "clusters=50", "watchword", 400.0, 20.0, 70.0, 40.0),
    ]


def test_small_hub_is_compared_for_one_cluster_and_one_renewal() -> None:
    cells = {
        "creation, seconds until settled": 10.0,
        "creation, CPU of the server, s": 5.0,
        "deletion, seconds until settled": 20.0,
        "deletion, CPU of the server, s": 2.5,
        "memory of the server, MiB": 80.0,
        "CPU of the server for one renewal, ms": 1.5,
    }

    assert list(small_hub_rows({"clusters": 50, "servers": {"embedded": cells}})) == [
        ReportRow("small hub: creation", "clusters=50", "watchword", wall_ms=200.0, cpu_ms=100.0, memory_mib=80.0),
        ReportRow("small hub: deletion", "clusters=50", "watchword", wall_ms=400.0, cpu_ms=50.0, memory_mib=80.0),
        ReportRow("small hub: renewal of a lease", "clusters=50", "watchword", cpu_ms=1.5),
    ]
