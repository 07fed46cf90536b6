"""Reads and writes the decision about a certificate signing request."""

from datetime import datetime

from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339, rfc3339

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
APPROVED_REASON = "AutoApprovedByHubCSRApprovingController"
"""The reason with which the hub's controllers approve; OCM uses the same."""


ISSUED = "aXNzdWVk"
"""What stands for a certificate where it does not matter which: base64, as everything in that field."""


class RequestDecision(Struct, frozen=True):
    """What was decided about a request; a denial or failure outweighs an approval."""

    verdict: str = ""  # Approved, Denied or Failed; empty while nothing is decided
    reason: str = ""
    message: str = ""
    decided_at: datetime | None = None  # by the API server's clock, if recorded
    certificate: str = ""  # base64 as in the status; empty until it is issued


def read_decision(csr: Object) -> RequestDecision:
    certificate = str((csr.get("status") or {}).get("certificate") or "")
    rows = {row.get("type"): row for row in conditions_of(csr) if row.get("status", "True") == "True"}
    row = next((rows[verdict] for verdict in (DENIED, FAILED, APPROVED) if verdict in rows), None)
    if row is None:
        return RequestDecision(certificate=certificate)
    since = parse_rfc3339(str(row.get("lastTransitionTime") or row.get("lastUpdateTime") or ""))
    reason, message = str(row.get("reason") or ""), str(row.get("message") or "")
    return RequestDecision(str(row["type"]), reason, message, since, certificate)


def without_issued_certificate(csr: Object) -> Object:
    """Return a request whose certificate, once issued, is only known to exist: a `Projection` for a hub's cache.

    The certificate is half of the request, and a hub that approves and signs never reads it.
    """
    status: Object = csr.get("status") or {}
    return {**csr, "status": {**status, "certificate": ISSUED}} if status.get("certificate") else csr


def is_pending(csr: Object) -> bool:
    return not conditions_of(csr)


def is_approved_by_hub(csr: Object) -> bool:
    """Whether a hub's controllers approved the request: no other decision can follow, and nothing is left to do."""
    return read_decision(csr).reason == APPROVED_REASON


def is_approved(csr: Object) -> bool:
    return read_decision(csr).verdict == APPROVED


def with_decision(csr: Object, verdict: str, reason: str, message: str, *, now: datetime) -> Object:
    row = {"type": verdict, "status": "True", "reason": reason, "message": message, "lastUpdateTime": rfc3339(now)}
    status: Object = csr.get("status") or {}
    return {**csr, "status": {**status, "conditions": [*(status.get("conditions") or []), row]}}
