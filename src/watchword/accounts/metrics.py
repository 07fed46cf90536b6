"""Metrics of managed service accounts on the hub: their phases, and how long their revocation takes."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from functools import partial

from watchword.api.conditions import find_condition, is_true
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object, is_deleting, uid_of
from watchword.api.names import ConditionType
from watchword.api.time import parse_rfc3339
from watchword.runtime.metrics import TokenValidityMetrics
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.raw_objects import Delta

WHERE = "of a managed service account"


class AccountPhase(StrEnum):
    """What is known of an account's token, as a label of metrics."""

    WAITING = "waiting"  # no agent has said anything of it
    REPORTED = "reported"
    FAILED = "failed"
    REVOKING = "revoking"


def read_token_times(account: Object) -> CredentialValidity:
    status = account.get("status") or {}
    issued = (status.get("tokenSecretRef") or {}).get("lastRefreshTimestamp")
    scheduled = find_condition(account, ConditionType.ROTATION_SCHEDULED)
    renewed = scheduled is None or scheduled.status != "False"
    expires = parse_rfc3339(str(status.get("expirationTimestamp") or ""))
    return CredentialValidity(parse_rfc3339(str(issued or "")), expires if renewed else None)


def decide_phase(account: Object) -> AccountPhase:
    """Decide from what the conditions say; a failure counts more than a token that is still there."""
    if is_deleting(account):
        return AccountPhase.REVOKING
    failing = (ConditionType.ALL_ACCOUNTS_PRESENT, ConditionType.TOKEN_REPORTED)
    told = [find_condition(account, name) for name in failing]
    if any(said is not None and said.status == "False" for said in told):
        return AccountPhase.FAILED
    in_set = bool((account.get("status") or {}).get("clusters"))
    done = ConditionType.ALL_ACCOUNTS_PRESENT if in_set else ConditionType.TOKEN_REPORTED
    return AccountPhase.REPORTED if is_true(account, done) else AccountPhase.WAITING


class HubAccountMetrics:
    """The series of the hub side, in the registry of the process."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], datetime]) -> None:
        self._phases: dict[str, AccountPhase] = {}
        self._validity = TokenValidityMetrics(registry, "account", WHERE, now=now)
        accounts = registry.gauge("watchword_accounts", "Managed service accounts by phase", "phase")
        for phase in AccountPhase:
            accounts.labels(phase.value).set_function(partial(self._count, phase))
        self.revocation = registry.histogram(
            "watchword_account_revocation_seconds",
            "From the deletion of an account to the confirmation that its cluster has removed it",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600),
        ).labels()

    def _count(self, phase: AccountPhase) -> int:
        return sum(known is phase for known in self._phases.values())

    def observe(self, delta: Delta) -> None:
        if delta.old is not None:
            self._phases.pop(uid_of(delta.old), None)
            self._validity.times.pop(uid_of(delta.old), None)
        if delta.new is not None:
            uid = uid_of(delta.new)
            self._phases[uid], self._validity.times[uid] = decide_phase(delta.new), read_token_times(delta.new)
