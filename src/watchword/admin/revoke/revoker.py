"""Carries out planned revocations, with an Event and an audit line for each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.admin.errors import AdminError
from watchword.admin.revoke.refusals import Refusal, RefusalMeasurement
from watchword.admin.revoke.revocation import Revocation
from watchword.kube.errors import KubeError
from watchword.runtime.event_recorder import EventRecorder

EVENT_PATIENCE = timedelta(seconds=10)
REASON = "CredentialRevoked"


class RevocationResult(Struct, frozen=True):
    """What became of one revocation; without `changed` there was nothing to do."""

    revocation: Revocation
    changed: bool = False
    refusals: tuple[Refusal, ...] = ()
    trouble: str = ""  # why it was not carried out

    @property
    def unproved(self) -> list[Refusal]:
        """The holders that were not refused in time, or of which that is not known."""
        return [refusal for refusal in self.refusals if refusal.seconds is None]


class Revoker(Struct, frozen=True):
    """Revokes what was planned."""

    events: EventRecorder
    administrator: str  # as the hub authenticates it
    wait: timedelta | None = None  # None: return without waiting for the refusal

    async def run(self, planned: Sequence[Revocation]) -> list[RevocationResult]:
        """Revoke all at the same time: the trouble of one delays no other."""
        return list(await asyncio.gather(*(self._revoke(each) for each in planned)))

    async def _revoke(self, revocation: Revocation) -> RevocationResult:
        since = asyncio.get_running_loop().time()
        try:
            changed = await revocation.act()
        except (KubeError, AdminError) as trouble:
            return RevocationResult(revocation, trouble=str(trouble))
        if changed:
            self.events.normal(revocation.object, REASON, f"{self.administrator} revoked {revocation.target}")
        refusals, _ = await asyncio.gather(self._measure(revocation, since), self.events.flush(EVENT_PATIENCE))
        return RevocationResult(revocation, changed, tuple(refusals))

    async def _measure(self, revocation: Revocation, since: float) -> list[Refusal]:
        if self.wait is None:
            return []
        return await RefusalMeasurement(self.wait, since, revocation.repeat).run(revocation.probes)
