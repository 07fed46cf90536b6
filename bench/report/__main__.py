"""Run every benchmark beside every peer at hand: python -m bench.report --scale small --out bench/results/report.md."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from bench.report.rows import Circumstances, Skipped, render_report
from bench.report.selection import read_subject_files
from bench.report.sources import Report
from bench.rig.bytecode import compile_modules
from watchword.testing.kube_apiserver_backend import find_assets

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "bench" / "results" / "report.md"


def main() -> None:
    """Measure everything and write the report; a benchmark that fails is listed and the rest goes on."""
    arguments = _arguments()
    for folder in ("src", "bench"):
        compile_modules(ROOT / folder)
    report = Report(full=arguments.scale == "full")
    places = {
        "python": sys.executable,
        "bin": str(find_assets().folder),
        "peers": os.environ.get("PEERS_BIN", "PEERS_BIN"),
    }
    report.run_workloads(read_subject_files(ROOT / "bench" / "subjects"), places)
    report.run_planes()
    _run_clients(report, arguments.client_python)
    report.run_large_hub()
    report.run_small_hub()
    where = Circumstances(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", _machine(), _revision(), arguments.scale)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(render_report(where, report.rows, report.skipped), encoding="utf-8")
    print(arguments.out)


def _run_clients(report: Report, python: str) -> None:
    if python == sys.executable and find_spec("kubernetes") is None:
        reason = "the packages of the other clients are missing: name a Python that has them with --client-python"
        report.skipped.append(Skipped("client", "all", reason))
    else:
        report.run_clients(python)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.report", description="Write one table of all benchmarks.")
    parser.add_argument("--scale", choices=("small", "full"), default="small")
    parser.add_argument("--out", type=Path, default=TARGET, help="the file to write")
    parser.add_argument("--client-python", default=sys.executable, help="a Python with the packages of other clients")
    return parser.parse_args()


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[1]
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"
    return f"{system}, Python {platform.python_version()}, load average {load:.1f}"


def _revision() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
