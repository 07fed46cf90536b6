"""Counts what happens to the cluster's own credential."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from watchword.api.credential_validity import parse_validity_message
from watchword.drivers.interface import NewCredential, ObtainResult, Pending, SecretData, ValidCredential
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics

KIND = "cluster"


@dataclass
class CredentialMetricsObserver:
    """A `CredentialObserver` that counts each answer."""

    metrics: CredentialMetrics
    cluster: str
    clock: Clock
    began: datetime = field(init=False)
    held: ValidCredential | NewCredential | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.began = self.clock.now()

    async def on_answer(self, answer: ObtainResult, _data: SecretData) -> None:
        """Count one answer of the driver."""
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
        self.metrics.watch_expiry(KIND, self.cluster, self._seconds_left)

    def _seconds_left(self) -> float:
        return (self.held.expires_at - self.clock.now()).total_seconds() if self.held is not None else 0.0


def remaining_validity_ratio(held: ValidCredential | NewCredential, now: datetime) -> float:
    """Return which part of a life is left; its beginning is taken from what was said of it."""
    said = parse_validity_message(held.message)
    issued = held.issued_at if isinstance(held, NewCredential) else said.issued if said is not None else None
    if issued is None or held.expires_at <= issued:
        return 0.0
    return min(max((held.expires_at - now) / (held.expires_at - issued), 0.0), 1.0)
