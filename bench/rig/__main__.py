"""Run a workload with subjects: python -m bench.rig hub-accept --subject bench/subjects/watchword.toml -p n=300."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import watchword
from bench.rig.bytecode import compile_modules
from bench.rig.result import Result, keep_result, table
from bench.rig.run import Run
from bench.rig.subject import Subject, read_subject
from watchword.runtime.event_loop import run
from watchword.testing.kube_apiserver_backend import find_assets

WORKLOADS = (
    "hub-accept",
    "addon-token-infra",
    "agent-addon-tokens",
    "join",
    "join-grpc",
    "bootstrap-signer",
    "pull-secrets",
    "managed-accounts",
    "account-fan-out",
)


def main() -> None:
    """Run every subject, `--repeat` times in turn, and print the table."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything started is ended
    compile_modules(Path(watchword.__file__).parent)
    subjects = [read_subject(path) for path in arguments.subject]
    results = [run(_once(subject, arguments)) for _ in range(arguments.repeat) for subject in subjects]
    print(table(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rig", description="Run a workload with subjects.")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--subject", type=Path, action="append", required=True, help="a file of command lines")
    parser.add_argument("--variant", default="", help="named extra arguments in the subject file")
    parser.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=NUMBER")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each run")
    parser.add_argument("--out", type=Path, help="a folder for result files")
    return parser.parse_args()


async def _once(subject: Subject, arguments: argparse.Namespace) -> Result:
    module = import_module(f"bench.workloads.{arguments.workload.replace('-', '_')}")
    chosen = {name: int(value) for name, _, value in (text.partition("=") for text in arguments.parameter)}
    parameters = {**module.PARAMETERS, **chosen}
    with tempfile.TemporaryDirectory(prefix="watchword-rig-") as folder:
        one = Run(subject, arguments.workload, parameters, find_assets(), Path(folder), arguments.variant)
        try:
            async with asyncio.timeout(arguments.limit):
                result: Result = await module.run(one)
        except BaseException:
            print(one.log_tail(), file=sys.stderr)
            raise
        finally:
            await one.close()
    name = f"{result.workload}-{result.subject}-{result.variant or 'default'}"
    keep_result(arguments.out, name, result.document())
    return result


if __name__ == "__main__":
    main()
