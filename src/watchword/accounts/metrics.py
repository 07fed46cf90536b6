"""What is counted of managed service accounts: by the hub, how they stand; by an agent, how tokens are refreshed."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from functools import partial

from msgspec import Struct, field

from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, is_deleting
from watchword.api.names import ConditionType
from watchword.api.time import parse_rfc3339
from watchword.credentials.lifecycle import Reason
from watchword.runtime.metrics import LabelBudget
from watchword.runtime.prometheus import CollectorRegistry, Counter, Gauge, Histogram


class AccountPhase(StrEnum):
    """How an account stands."""

    WAITING = "waiting"  # no agent has said anything of it
    REPORTED = "reported"
    FAILED = "failed"
    REVOKING = "revoking"


class AccountState(Struct, frozen=True):
    """One account as its status says; the times are None without a token."""

    phase: AccountPhase
    issued_at: datetime | None = None
    expires_at: datetime | None = None  # None also for a token that is not meant to be renewed

    @classmethod
    def read(cls, account: Object) -> AccountState:
        status = account.get("status") or {}
        issued = (status.get("tokenSecretRef") or {}).get("lastRefreshTimestamp")
        scheduled = find_condition(account, ConditionType.ROTATION_SCHEDULED)
        renewed = scheduled is None or scheduled.status != "False"
        expires = parse_rfc3339(str(status.get("expirationTimestamp") or ""))
        return cls(decide_phase(account), parse_rfc3339(str(issued or "")), expires if renewed else None)


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


class KnownAccounts(Struct):
    """The accounts of a hub, by UID."""

    states: dict[str, AccountState] = field(default_factory=dict)

    def count(self, phase: AccountPhase) -> int:
        return sum(state.phase is phase for state in self.states.values())

    def oldest_age(self, now: datetime) -> float:
        """Return the age of the oldest token in seconds, nothing without a token."""
        ages = ((now - at).total_seconds() for state in self.states.values() if (at := state.issued_at))
        return max(ages, default=0.0)

    def soonest_expiry(self, now: datetime) -> float:
        """Return the seconds until the first token that is renewed expires; infinite without one."""
        left = ((at - now).total_seconds() for state in self.states.values() if (at := state.expires_at))
        return min(left, default=math.inf)


class HubAccountMetrics:
    """The series of the hub side, in the registry of the process."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], datetime]) -> None:
        self.known = known = KnownAccounts()
        accounts = Gauge("watchword_accounts", "Managed service accounts by phase", ["phase"], registry=registry)
        for phase in AccountPhase:
            accounts.labels(phase.value).set_function(partial(known.count, phase))
        Gauge(
            "watchword_account_oldest_token_age_seconds",
            "Age of the oldest token of a managed service account",
            registry=registry,
        ).set_function(lambda: known.oldest_age(now()))
        Gauge(
            "watchword_account_soonest_expiry_seconds",
            "Seconds until the first token of an account expires that is renewed; negative when one has expired",
            registry=registry,
        ).set_function(lambda: known.soonest_expiry(now()))
        self.revocation = Histogram(
            "watchword_account_revocation_seconds",
            "From the deletion of an account to the confirmation that its cluster has removed it",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600),
            registry=registry,
        )


class AgentAccountMetrics:
    """The series of an agent, in the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._refreshes = Counter(
            "watchword_account_refresh", "Tokens of accounts written to the hub", ["reason"], registry=registry
        )
        self._failures = Counter(
            "watchword_account_refresh_failure",
            "Refreshes of an account's token that failed",
            ["reason", "error"],
            registry=registry,
        )
        self._seconds = Histogram(
            "watchword_account_refresh_seconds",
            "How long it took to get a token and write it",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=registry,
        )
        self._errors = LabelBudget(32)

    def refreshed(self, reason: Reason, *, seconds: float) -> None:
        self._refreshes.labels(reason.value).inc()
        self._seconds.observe(seconds)

    def failed(self, reason: Reason, error: Exception) -> None:
        self._failures.labels(reason.value, self._errors.value(type(error).__name__)).inc()
