"""`watchword doctor`: what keeps a hub or a cluster from being well, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from watchword.admin.init import SignerProbe
from watchword.api.text import escape_text
from watchword.cli._exit_codes import ExitCode
from watchword.cli.common_options import format_document, output_option
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import flag
from watchword.cli.output import echo
from watchword.health.checks import CheckContext, CheckResult, has_no_failure
from watchword.health.doctor import run_doctor
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run

MARKS = {"ok": "ok", "warning": "warn", "failure": "FAIL"}
MAX_FINDINGS = 10  # findings of one check that a page holds


@click.command("doctor")
@flag("--read-only", help="Do not create a test CertificateSigningRequest.")
@output_option()
@connection_options
def command(connection: ClusterConnection, read_only: bool, output: str) -> int:  # noqa: FBT001 - a flag
    """Diagnose a hub or a cluster, with the next command.

    Every finding names its reason and the next command. The exit code is 0 when nothing fails, else 6.
    """
    results = run(_run_doctor(connection, may_write=not read_only))
    if output != "table":
        echo(format_document([_document(result) for result in results], output), nl=False)
    else:
        echo(render_results(results), nl=False)
    return ExitCode.DONE if has_no_failure(results) else ExitCode.ATTENTION


async def _run_doctor(connection: ClusterConnection, *, may_write: bool) -> list[CheckResult]:
    async with connection.client() as client:
        return await run_doctor(
            CheckContext(client, SystemClock(), SignerProbe(client, SystemClock()).run if may_write else None)
        )


def render_results(results: Sequence[CheckResult]) -> str:
    width = max(len(result.check) for result in results)
    lines: list[str] = []
    for result in results:
        for finding in result.findings[:MAX_FINDINGS]:
            lines.append(f"{MARKS[finding.level]:4}  {result.check.ljust(width)}  {finding.reason}")
            if finding.command:
                lines.append(f"{'':6}{'':{width}}  next: {finding.command}")
        left = len(result.findings) - MAX_FINDINGS
        if left > 0:
            lines.append(f"{'':6}{'':{width}}  and {left} more: watchword doctor -o yaml names them all")
    return "".join(f"{escape_text(line)}\n" for line in lines)


def _document(result: CheckResult) -> dict[str, object]:
    findings = [
        {"level": str(finding.level), "reason": finding.reason, "command": finding.command}
        for finding in result.findings
    ]
    return {"check": result.check, "findings": findings}
