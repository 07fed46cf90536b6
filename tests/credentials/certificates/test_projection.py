"""What a hub's cache keeps of certificate requests."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.credentials.certificates.requests import (
    APPROVED,
    is_pending,
    read_decision,
    without_issued_certificate,
)


def a_request(**status: object) -> Object:
    return {"metadata": {"name": "edge-1-abc"}, "spec": {"request": "cmVxdWVzdA=="}, "status": status}


def test_hub_knows_that_a_certificate_was_issued_and_not_which() -> None:
    approved = {"type": APPROVED, "status": "True", "reason": "AutoApproved"}
    kept = without_issued_certificate(a_request(conditions=[approved], certificate="Y2VydGlmaWNhdGU=" * 100))

    decision = read_decision(kept)

    assert (decision.verdict, bool(decision.certificate)) == (APPROVED, True)
    assert len(decision.certificate) < 10
    assert kept["spec"] == {"request": "cmVxdWVzdA=="}


def test_request_without_a_certificate_is_kept_as_it_is() -> None:
    request = a_request()

    assert without_issued_certificate(request) == request
    assert is_pending(without_issued_certificate(request))
