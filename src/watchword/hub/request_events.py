"""Tells as Events what others decide about certificate requests: an administrator, or another approver."""

from __future__ import annotations

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.certificates.approval import (
    APPROVED,
    APPROVED_REASON,
    DENIED,
    RequestDecision,
    is_approved_by_hub,
    read_decision,
)
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader


class RequestEventReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest. After a restart, decisions of the last hour are told again."""

    reader: Reader
    events: EventRecorder
    clock: Clock
    seen: dict[ObjectKey, str] = field(default_factory=dict)  # what was decided when it was last seen

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Compare what is decided with what was decided before."""
        csr, before = self.reader.get(CERTIFICATE_SIGNING_REQUESTS, key), self.seen.pop(key, None)
        if csr is None:
            return Done()
        decision = read_decision(csr)
        self.seen[key] = decision.verdict
        # What the hub approves is told by the reconciler that decides.
        is_own = decision.reason == APPROVED_REASON
        is_recent = before is not None or is_news(decision.decided_at, now=self.clock.now())
        if decision.verdict != before and not is_own and is_recent:
            self._tell(csr, decision)
        return Done()

    def _tell(self, csr: Object, decision: RequestDecision) -> None:
        labels, name = labels_of(csr), csr["metadata"]["name"]
        addon = labels.get(Label.ADDON_NAME)
        asking = f"{f'add-on {addon} of ' if addon else ''}cluster {labels.get(Label.CLUSTER_NAME)}"
        said = f"{decision.reason}: {decision.message}"
        if decision.verdict == APPROVED:
            self.events.normal(csr, "CSRApproved", f"request {name} of {asking} was approved ({said})")
        elif decision.verdict == DENIED:
            self.events.normal(csr, "CSRDenied", f"request {name} of {asking} was denied ({said})")


def request_event_controller(reader: Reader, events: EventRecorder, clock: Clock) -> ControllerSpec:
    """Return the controller."""
    reconciler = RequestEventReconciler(reader, events, clock)
    return ControllerSpec(
        "request-events",
        CERTIFICATE_SIGNING_REQUESTS,
        reconciler,
        workers=1,
        concerns=lambda csr: not is_approved_by_hub(csr),
    )
