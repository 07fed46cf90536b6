"""Counts what happens to the cluster's own credential."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from watchword.api.credential_validity import CredentialValidity
from watchword.drivers.interface import NewCredential, ObtainResult, Pending, SecretData, ValidCredential
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life

KIND = "cluster"


@dataclass
class CredentialMetricsObserver:
    """A `CredentialObserver` that counts each result."""

    metrics: CredentialMetrics
    cluster: str
    clock: Clock
    began: datetime = field(init=False)
    held: ValidCredential | NewCredential | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.began = self.clock.now()

    async def on_answer(self, answer: ObtainResult, _data: SecretData) -> None:
        """Count one response of the driver."""
        if isinstance(answer, Pending):
            self._count_refusal(answer)
        else:
            self._count_held(answer)

    def _count_refusal(self, answer: Pending) -> None:
        if answer.failed and answer.message != self.refused:  # the same refusal is seen at every look
            self.metrics.rotation_failed(KIND, answer.reason)
        self.refused = answer.message if answer.failed else self.refused

    def _count_held(self, answer: ValidCredential | NewCredential) -> None:
        now, before = self.clock.now(), self.held
        if isinstance(answer, NewCredential) and before is None:
            self.metrics.joined_after((now - self.began).total_seconds())
        elif isinstance(answer, NewCredential) and before is not None:
            self.metrics.rotated(KIND, remaining_ratio=remaining_validity_ratio(before, now))
        self.held, self.refused = answer, ""
        if answer.expires_at is not None:
            self.metrics.watch_expiry(KIND, self.cluster, self._remaining)
        else:
            self.metrics.forget(KIND, self.cluster)

    def _remaining(self) -> RemainingLife:
        held = self.held
        validity = CredentialValidity() if held is None else CredentialValidity(held.issued_at, held.expires_at)
        return remaining_life([validity], now=self.clock.now())


def remaining_validity_ratio(held: ValidCredential | NewCredential, now: datetime) -> float:
    """Return which part of a validity is left; all of it where it does not expire."""
    if held.expires_at is None:
        return 1.0
    if held.issued_at is None or held.expires_at <= held.issued_at:
        return 0.0
    return min(max((held.expires_at - now) / (held.expires_at - held.issued_at), 0.0), 1.0)
