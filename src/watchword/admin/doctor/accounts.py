"""Whether programs on the hub can use the tokens of managed service accounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchword.accounts.metrics import AccountPhase, decide_phase
from watchword.admin.doctor.model import Check, CheckContext, CheckFinding, fail, passed, warn
from watchword.admin.formatting import format_count
from watchword.api.meta import Object, ObjectKey

LIST = "watchword serviceaccount list"


async def managed_accounts(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at every account; say nothing where there are none."""
    return decide_account_findings((await context.facts()).accounts)


def decide_account_findings(accounts: Sequence[Object]) -> list[CheckFinding]:
    """Judge the accounts by the worst of them; tokens about to expire are found with all other credentials."""
    phases = [(decide_phase(account), str(ObjectKey.of(account))) for account in accounts]
    found = {phase: [name for one, name in phases if one is phase] for phase in AccountPhase}
    findings = []
    if failed := found[AccountPhase.FAILED]:
        count = format_count(len(failed), "managed service account")
        findings.append(fail(f"{count} not on all clusters or without a token, first {failed[0]}", LIST))
    if revoking := found[AccountPhase.REVOKING]:
        count = format_count(len(revoking), "deleted account")
        findings.append(warn(f"{count} not confirmed as revoked, first {revoking[0]}", LIST))
    if waiting := found[AccountPhase.WAITING]:
        count = format_count(len(waiting), "managed service account")
        enable = "watchword addon enable managed-serviceaccount -c CLUSTER"
        findings.append(warn(f"{count} of which no agent has reported, first {waiting[0]}", enable))
    if findings or not accounts:
        return findings
    return passed(f"{format_count(len(accounts), 'managed service account')}, all with a token")


CHECKS = (Check("managed service accounts", managed_accounts),)
