"""The measurements of the rig are correct."""

from __future__ import annotations

import os
from importlib.util import cache_from_source
from pathlib import Path

import orjson
import pytest

from bench.rig.audit import AuditLog
from bench.rig.bytecode import compile_modules
from bench.rig.processes import usage
from bench.rig.result import Result, table
from bench.rig.subject import Program, read_subject

ROOT = Path(__file__).parents[2]
SUBJECT = """
name = "mine"

[workloads.join.hub]
argv = ["run", "--kubeconfig={hub}"]
variants = { lifted = ["--qps=1000"] }

[workloads.join.agent]
per_agent = true
argv = ["agent", "{cluster}"]
"""


def _event(verb: str, resource: str, *, user: str = "rig:subject:hub", code: int = 200, **fields: str) -> bytes:
    event = {
        "auditID": fields.pop("audit_id", "1"),
        "stage": fields.pop("stage", "ResponseComplete"),
        "verb": verb,
        "user": {"username": user},
        "requestURI": "/x",
        "objectRef": {"resource": resource, **fields},
        "responseStatus": {"code": code},
    }
    return orjson.dumps(event) + b"\n"


def test_requests_of_the_subject_are_counted_by_action_and_failure(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_bytes(
        _event("create", "secrets")
        + _event("patch", "secrets", subresource="status", code=409)
        + _event("create", "secrets", user="rig:admin")
    )

    log.read()

    counted = log.count(("rig:subject:",))
    assert (counted.total, counted.by_action) == (2, {"create secrets": 1, "patch secrets/status": 1})
    assert counted.failed == {"409 patch secrets/status": 1}


def test_watch_counts_once_and_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    started = _event("watch", "secrets", stage="ResponseStarted", audit_id="7")
    ended = _event("watch", "secrets", audit_id="7")
    log.path.write_bytes(started + ended[:20])
    log.read()
    with log.path.open("ab") as file:
        file.write(ended[20:])

    log.read()

    assert log.count(("rig:",)).by_action == {"watch secrets": 1}


def test_renewing_a_lease_is_no_sign_of_work(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_bytes(_event("update", "leases"))

    log.read()

    assert log.last_request(("rig:subject:",)) is None


def test_subject_file_gives_command_lines_with_their_places_filled(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SUBJECT)

    subject = read_subject(path)

    (hub,) = subject.programs("join", per_agent=False)
    assert hub.command("lifted", {"hub": "/k"}) == ["run", "--kubeconfig=/k", "--qps=1000"]
    assert [agent.name for agent in subject.programs("join", per_agent=True)] == ["agent"]
    with pytest.raises(SystemExit, match="mine has no programs for hub-accept"):
        subject.programs("hub-accept", per_agent=False)


@pytest.mark.parametrize("path", sorted((ROOT / "bench" / "subjects").glob("*.toml")), ids=lambda path: path.stem)
def test_bundled_subject_files_can_be_parsed(path: Path) -> None:
    subject = read_subject(path)

    assert subject.name == path.stem
    assert all(isinstance(one, Program) for programs in subject.workloads.values() for one in programs)


def test_own_process_uses_time_and_memory() -> None:
    used = usage({"me": os.getpid()})["me"]

    assert used.cpu_seconds > 0
    assert used.resident_mib > 1


def test_result_is_a_row_of_a_table() -> None:
    result = Result(
        "join",
        "mine",
        "",
        {"k": 2},
        2,
        4.0,
        0.1,
        3.0,
        {"hub": 10, "spoke": 6},
        {},
        {"hub: 403 get x": 1},
        1.5,
        80.0,
        {},
        {},
    )

    assert table([result]).splitlines()[-1] == "| join | mine | k=2 | 4.00 | 0.5 | 8.00 | 1 | 1.50 | 80 |"


def test_modules_are_compiled_before_processes_that_import_them_are_measured(tmp_path: Path) -> None:
    module = tmp_path / "package" / "module.py"
    module.parent.mkdir()
    module.write_text("VALUE = 1\n")

    compile_modules(tmp_path)

    assert Path(cache_from_source(str(module))).exists()


def test_module_that_cannot_be_compiled_ends_the_benchmark(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("VALUE =\n")

    with pytest.raises(SystemExit, match=f"cannot compile the modules in {tmp_path}"):
        compile_modules(tmp_path)
