"""Keeps one credential alive in its Secret: obtained, renewed in time, restored when damaged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from watchword.agent.secret_data import SecretExtras, choose_secret_data, data_patch, decode_data, encode_data
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import SECRETS
from watchword.drivers.interface import (
    AgentDriver,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
)
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

MAX_STEPS = 4  # key, request, decision: enough for a hub that answers at once, too few to spin


@dataclass(frozen=True, slots=True)
class CredentialSpec:
    """One credential that is kept: what is wanted, who obtains it, what stands extras it."""

    wanted: WantedCredential
    driver: AgentDriver
    extras: SecretExtras
    labels: Mapping[str, str] = field(default_factory=dict)


FindCredentialSpec: TypeAlias = Callable[[ObjectKey], CredentialSpec | None]
"""What is kept in that Secret; None when it is nobody's business any more."""

CredentialObserver: TypeAlias = Callable[[ObjectKey, ObtainResult, SecretData], Awaitable[None]]
"""Told after each step what the driver answered and what the Secret holds now."""

PendingTracker: TypeAlias = Callable[[ObjectKey, ObtainResult | None], None]
"""Told of each answer at once, and when nothing is kept any more: whether the hub's decisions are waited for."""


def track_nothing(_key: ObjectKey, _answer: ObtainResult | None) -> None:
    """Take no track_pending."""


@dataclass(frozen=True)
class CredentialReconciler:
    """Reconciles the Secret of a credential; woken by the Secret, by the hub's answers and by the clock."""

    reader: Reader  # of this cluster
    cluster: Client  # this cluster
    find: FindCredentialSpec
    report: CredentialObserver
    clock: Clock
    track_pending: PendingTracker = track_nothing

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take as many steps as can be taken now, then wait for the next instant that matters."""
        for _ in range(MAX_STEPS):
            spec = self.find(key)
            if spec is None:
                self.track_pending(key, None)
                return Done()
            secret = self.reader.get(SECRETS, key)
            held = decode_data(secret)
            answer = await spec.driver.obtain(spec.wanted, held)
            self.track_pending(key, answer)
            wanted = choose_secret_data(held, answer, owned=spec.driver.owned_keys(), extras=spec.extras)
            if wanted != held and (secret is not None or is_worth_storing(answer)):
                await self._store(key, secret, held, wanted, spec.labels)
            await self.report(key, answer, wanted)
            delay = self._requeue_delay(answer)
            if delay > timedelta(0):
                return RetryAfter(delay)
        return RetryAfter(timedelta(seconds=1))

    def _requeue_delay(self, answer: ObtainResult) -> timedelta:
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


def is_worth_storing(answer: ObtainResult) -> bool:
    """Whether an answer is reason enough to make a Secret: waiting alone is not."""
    return not isinstance(answer, Pending) or bool(answer.keep)


def describe(answer: ObtainResult) -> str:
    """Return what happened in one word, for logs and metrics."""
    match answer:
        case ValidCredential():
            return "kept"
        case NewCredential():
            return "issued"
        case Pending(failed=True):
            return "refused"
        case Pending():
            return "pending"
