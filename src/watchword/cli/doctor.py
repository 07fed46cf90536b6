"""`watchword doctor`: what keeps a hub or a cluster from being well, and what to do about it."""

from collections.abc import Sequence

import click

from watchword.admin.init import SignerProbe
from watchword.api.text import escape_text
from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import ClusterConnection, cluster_options
from watchword.cli.options import flag, named
from watchword.cli.output import show_result
from watchword.health.examination import Examination
from watchword.health.finding import CheckResult, Severity, finding_document, urgent
from watchword.runtime.clock import SystemClock

MARKS = {Severity.OK: "ok", Severity.NOTICE: "note", Severity.WARNING: "warn", Severity.FAILURE: "FAIL"}
MAX_FINDINGS = 10  # findings of one check that a page holds


@click.command("doctor")
@named("--cluster", default="", help="On a hub: diagnose only this cluster and what it needs of the hub.")
@flag("--read-only", help="Do not create a test CertificateSigningRequest.")
@cluster_options(output=True)
async def command(connection: ClusterConnection, cluster: str, output: str, *, read_only: bool) -> int:
    """Diagnose a hub or a cluster, with the next command.

    Every finding names its reason and the next command. The exit code is 6 when something needs attention, as
    that of `status --check`, which prints the same findings alone.
    """
    async with connection.client() as client:
        clock = SystemClock()
        probe = None if read_only or cluster else SignerProbe(client, clock).run
        results = await Examination(client, clock, probe_signer=probe).run(cluster)
    rows = [finding_document(result.check, finding) for result in results for finding in result.findings]
    show_result(rows, output, lambda: render_results(results))
    return ExitCode.ATTENTION if urgent(results) else ExitCode.DONE


def render_results(results: Sequence[CheckResult]) -> str:
    width = max(len(result.check) for result in results)
    lines: list[str] = []
    for result in results:
        for finding in result.findings[:MAX_FINDINGS]:
            lines.append(f"{MARKS[finding.severity]:4}  {result.check.ljust(width)}  {finding.line}")
            if finding.command:
                lines.append(f"{'':6}{'':{width}}  next: {finding.command}")
        left = len(result.findings) - MAX_FINDINGS
        if left > 0:
            lines.append(f"{'':6}{'':{width}}  and {left} more: watchword doctor -o yaml names them all")
    return "".join(f"{escape_text(line)}\n" for line in lines)
