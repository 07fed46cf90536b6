"""Whether pods can pull with the image pull secrets of this cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchword.admin.doctor.model import Check, CheckContext, CheckFinding, fail, passed, warn
from watchword.admin.formatting import format_count
from watchword.kube.errors import Forbidden
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, list_pull_secrets

LIST = "watchword pull-secrets list --unhealthy"
BROKEN = (PullSecretHealth.EXPIRED, PullSecretHealth.CORRUPT, PullSecretHealth.EMPTY)


async def pull_secrets(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at every pull secret; say nothing where there are none, or where Secrets may not be listed."""
    try:
        rows = await list_pull_secrets(context.client, now=context.clock.now())
    except Forbidden:
        return []
    return decide_pull_secret_findings(rows)


def decide_pull_secret_findings(rows: Sequence[PullSecretRow]) -> list[CheckFinding]:
    """Judge the pull secrets by the worst of them."""
    broken = [row for row in rows if row.health in BROKEN]
    overdue = [row for row in rows if row.health is PullSecretHealth.OVERDUE]
    legacy = [row for row in rows if row.health is PullSecretHealth.LEGACY]
    findings = []
    if broken:
        first = broken[0]
        count = format_count(len(broken), "pull secret")
        findings.append(fail(f"{count} cannot be used; {first.key} is {first.health.value}", LIST))
    if overdue:
        findings.append(warn(f"{format_count(len(overdue), 'pull secret')} should have been renewed by now", LIST))
    if legacy:
        count = format_count(len(legacy), "pull secret")
        findings.append(
            warn(f"{count} made from long-lived tokens", "kubectl get secrets -A -l openshift.io/legacy-token")
        )
    return findings or (passed(f"{format_count(len(rows), 'pull secret')}, all renewed in time") if rows else [])


CHECKS = (Check("image pull secrets", pull_secrets),)
