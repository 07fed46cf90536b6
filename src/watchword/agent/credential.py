"""Keeps one credential alive in its Secret: obtained, renewed in time, restored when damaged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from watchword.agent.secret_data import Beside, choose_data, data_patch, decode_data, encode_data
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import SECRETS
from watchword.drivers.interface import AgentDriver, Answer, Issued, Kept, Pending, SecretData, Wanted
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

STEPS_AT_ONCE = 4  # key, request, decision: enough for a hub that answers at once, too few to spin


@dataclass(frozen=True, slots=True)
class Keeping:
    """One credential that is kept: what is wanted, who obtains it, what stands beside it."""

    wanted: Wanted
    driver: AgentDriver
    beside: Beside
    labels: Mapping[str, str] = field(default_factory=dict)


Find: TypeAlias = Callable[[ObjectKey], Keeping | None]
"""What is kept in that Secret; None when it is nobody's business any more."""

Report: TypeAlias = Callable[[ObjectKey, Answer, SecretData], Awaitable[None]]
"""Told after each step what the driver answered and what the Secret holds now."""

Note: TypeAlias = Callable[[ObjectKey, Answer | None], None]
"""Told of each answer at once, and when nothing is kept any more: whether the hub's decisions are waited for."""


def forget(_key: ObjectKey, _answer: Answer | None) -> None:
    """Take no note."""


@dataclass(frozen=True)
class CredentialReconciler:
    """Reconciles the Secret of a credential; woken by the Secret, by the hub's answers and by the clock."""

    reader: Reader  # of this cluster
    cluster: Client  # this cluster
    find: Find
    report: Report
    clock: Clock
    note: Note = forget

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take as many steps as can be taken now, then wait for the next instant that matters."""
        for _ in range(STEPS_AT_ONCE):
            keeping = self.find(key)
            if keeping is None:
                self.note(key, None)
                return Done()
            secret = self.reader.get(SECRETS, key)
            held = decode_data(secret)
            answer = await keeping.driver.obtain(keeping.wanted, held)
            self.note(key, answer)
            wanted = choose_data(held, answer, owned=keeping.driver.owned_keys(), beside=keeping.beside)
            if wanted != held and (secret is not None or is_worth_storing(answer)):
                await self._store(key, secret, held, wanted, keeping.labels)
            await self.report(key, answer, wanted)
            delay = self._next_look(answer)
            if delay > timedelta(0):
                return RetryAfter(delay)
        return RetryAfter(timedelta(seconds=1))

    def _next_look(self, answer: Answer) -> timedelta:
        if isinstance(answer, Pending):
            return answer.recheck
        return max(answer.renew_at - self.clock.now(), timedelta(seconds=1))

    async def _store(
        self, key: ObjectKey, secret: Object | None, held: SecretData, wanted: SecretData, labels: Mapping[str, str]
    ) -> None:
        if secret is None:
            manifest = SECRETS.manifest(key, type="Opaque", data=encode_data(wanted))
            if labels:
                manifest["metadata"]["labels"] = dict(labels)
            await self.cluster.create(SECRETS, manifest)
            return
        patch = with_preconditions(secret, {"data": data_patch(held, wanted)})
        await self.cluster.patch(SECRETS, key, patch)


def is_worth_storing(answer: Answer) -> bool:
    """Whether an answer is reason enough to make a Secret: waiting alone is not."""
    return not isinstance(answer, Pending) or bool(answer.keep)


def describe(answer: Answer) -> str:
    """Return what happened in one word, for logs and metrics."""
    match answer:
        case Kept():
            return "kept"
        case Issued():
            return "issued"
        case Pending(failed=True):
            return "refused"
        case Pending():
            return "pending"
