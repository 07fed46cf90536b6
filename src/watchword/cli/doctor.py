"""`watchword doctor`: what keeps a hub or a cluster from being well, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.verb_options import output_option, write_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchword.fleet.doctor.model import Result

MARKS = {"ok": "ok", "warning": "warn", "failure": "FAIL"}
MOST = 10  # findings of one check that a page holds


@click.command("doctor")
@click.option("--read-only", is_flag=True, help="Only look: do not try whether certificates are issued.")
@output_option()
@connection_options
def command(connection: Connection, read_only: bool, output: str) -> int:  # noqa: FBT001 - a flag
    """Check a hub or a cluster, and say what to do.

    Every finding names its reason and the next command. The exit code is 0 when nothing fails, else 1.
    """
    from watchword.fleet.doctor.model import is_well  # noqa: PLC0415 - help must not pay for it
    from watchword.runtime.loop import run  # noqa: PLC0415 - same

    results = run(_examine(connection, may_write=not read_only))
    if output != "table":
        click.echo(write_document([_document(result) for result in results], output), nl=False)
    else:
        click.echo(page_of(results), nl=False)
    return 0 if is_well(results) else 1


async def _examine(connection: Connection, *, may_write: bool) -> list[Result]:
    from watchword.fleet.doctor.examination import examine_all  # noqa: PLC0415 - help must not pay for it
    from watchword.fleet.doctor.model import Patient  # noqa: PLC0415 - same
    from watchword.runtime.clock import SystemClock  # noqa: PLC0415 - same

    async with connection.client() as client:
        return await examine_all(Patient(client, SystemClock(), may_write))


def page_of(results: Sequence[Result]) -> str:
    """Return what was found, as a person reads it."""
    width = max(len(result.check) for result in results)
    lines: list[str] = []
    for result in results:
        for finding in result.findings[:MOST]:
            lines.append(f"{MARKS[finding.level]:4}  {result.check.ljust(width)}  {finding.reason}")
            if finding.command:
                lines.append(f"{'':6}{'':{width}}  next: {finding.command}")
        left = len(result.findings) - MOST
        if left > 0:
            lines.append(f"{'':6}{'':{width}}  and {left} more: watchword doctor -o yaml names them all")
    return "\n".join(lines) + "\n"


def _document(result: Result) -> dict[str, object]:
    findings = [
        {"level": str(finding.level), "reason": finding.reason, "command": finding.command}
        for finding in result.findings
    ]
    return {"check": result.check, "findings": findings}
