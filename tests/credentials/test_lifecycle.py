"""What becomes of a credential, decided from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from watchword.credentials.lifecycle import (
    LIFETIME_TOLERANCE,
    Decision,
    Evidence,
    GrowingPause,
    Held,
    Keep,
    Obstacle,
    Obtain,
    Reason,
    Retire,
    Subject,
    Wait,
    Wanted,
    decide,
    is_usable,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
WHO = Subject("robot", frozenset({"robots"}), account_uid="u1")
WANTED = Wanted(WHO, seed="robot", audiences=("a", "b"), lifetime=HOUR, request="r", place="p", rotation="monday")
DUE = NOW + HOUR / 2
HELD = Held(
    WHO, NOW, NOW + HOUR, audiences=("b", "a"), request="r", place="p", rotation="monday", renew_at=NOW + HOUR / 2
)


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        pytest.param(Reason.MISSING, Reason.MISSING, id="nothing held"),
        pytest.param(Reason.TAMPERED, Reason.TAMPERED, id="unreadable"),
        pytest.param(replace(HELD, subject=replace(WHO, user="x")), Reason.SUBJECT_CHANGED, id="another user"),
        pytest.param(replace(HELD, subject=replace(WHO, groups=frozenset())), Reason.SUBJECT_CHANGED, id="no group"),
        pytest.param(replace(HELD, subject=replace(WHO, account_uid="u2")), Reason.SUBJECT_CHANGED, id="account anew"),
        pytest.param(replace(HELD, subject=replace(WHO, secret_uid="s")), Reason.SUBJECT_CHANGED, id="another binding"),
        pytest.param(replace(HELD, audiences=("a",)), Reason.AUDIENCE_CHANGED, id="another audience"),
        pytest.param(replace(HELD, request="x"), Reason.REQUEST_CHANGED, id="of another request"),
        pytest.param(replace(HELD, place="x"), Reason.PLACE_CHANGED, id="in another place"),
        pytest.param(replace(HELD, expires_at=NOW), Reason.EXPIRED, id="expired to the second"),
        pytest.param(
            replace(HELD, expires_at=NOW + HOUR + LIFETIME_TOLERANCE + MINUTE), Reason.LIFETIME_LOWERED, id="too long"
        ),
        pytest.param(replace(HELD, rotation=""), Reason.ROTATION_REQUESTED, id="rotation requested"),
        pytest.param(replace(HELD, renew_at=NOW), Reason.RENEWAL_DUE, id="due to the second"),
    ],
)
def test_credential_that_is_not_what_is_wanted_is_obtained(held: Held | Reason, reason: Reason) -> None:
    assert decide(WANTED, held, Evidence(), now=NOW) == Obtain(reason)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        pytest.param(Evidence(refused=True), Obtain(Reason.REFUSED), id="refused"),
        pytest.param(Evidence(withdrawn_at=NOW), Obtain(Reason.KEY_WITHDRAWN), id="key withdrawn"),
        pytest.param(Evidence(withdrawn_at=NOW + MINUTE), Keep(NOW + MINUTE), id="key to be withdrawn"),
        pytest.param(Evidence(obstacle=Obstacle("x", NOW + HOUR)), Keep(DUE), id="nothing to obtain"),
        pytest.param(
            Evidence(refused=True, obstacle=Obstacle("denied", NOW + HOUR)),
            Wait("denied", NOW + HOUR, Reason.REFUSED),
            id="refused, and another one is denied",
        ),
        pytest.param(
            Evidence(refused=True, obstacle=Obstacle("denied", NOW)), Obtain(Reason.REFUSED), id="waited long enough"
        ),
    ],
)
def test_evidence_counts_whatever_the_credential_says_of_itself(evidence: Evidence, expected: Decision) -> None:
    assert decide(WANTED, HELD, evidence, now=NOW) == expected


@pytest.mark.parametrize(
    ("wanted", "held", "until"),
    [
        pytest.param(WANTED, HELD, DUE, id="as wanted"),
        pytest.param(replace(WANTED, rotation=""), HELD, DUE, id="rotation request withdrawn"),
        pytest.param(replace(WANTED, audiences=()), HELD, DUE, id="audience of the server"),
        pytest.param(replace(WANTED, lifetime=None), replace(HELD, expires_at=NOW + 9 * HOUR), DUE, id="any life"),
        pytest.param(replace(WANTED, lifetime=9 * HOUR), HELD, DUE, id="shortened by the server"),
        pytest.param(WANTED, replace(HELD, issued_at=NOW - 9 * HOUR), DUE, id="longer, and ends before a new one"),
        pytest.param(WANTED, replace(HELD, issued_at=NOW + MINUTE), DUE, id="not valid yet: clock set back"),
        pytest.param(replace(WANTED, renews=False), replace(HELD, expires_at=NOW), None, id="left to expire"),
    ],
)
def test_credential_that_is_wanted_is_kept(wanted: Wanted, held: Held, until: datetime | None) -> None:
    assert decide(wanted, held, Evidence(), now=NOW) == Keep(until)


def test_lifetime_that_the_server_lengthens_is_no_reason_to_ask_again() -> None:
    held = replace(HELD, expires_at=NOW + 9 * HOUR)

    assert decide(WANTED, held, Evidence(issued_life=9 * HOUR), now=NOW) == Keep(DUE)


@pytest.mark.parametrize(
    ("held", "obtained", "expected"),
    [
        pytest.param(replace(HELD, renew_at=NOW), NOW, Keep(NOW + 6 * MINUTE), id="due when it was obtained"),
        pytest.param(replace(HELD, renew_at=NOW), NOW - 6 * MINUTE, Obtain(Reason.RENEWAL_DUE), id="rested"),
        pytest.param(
            replace(HELD, issued_at=NOW - HOUR, expires_at=NOW), NOW, Keep(DUE), id="expired by this clock alone"
        ),
        pytest.param(replace(HELD, renew_at=NOW), NOW + HOUR, Obtain(Reason.RENEWAL_DUE), id="clock set back since"),
    ],
)
def test_credential_that_was_just_obtained_is_not_renewed(held: Held, obtained: datetime, expected: Decision) -> None:
    assert decide(WANTED, held, Evidence(obtained_at=obtained), now=NOW) == expected


def test_credential_that_is_not_wanted_is_retired() -> None:
    assert decide(None, HELD, Evidence(), now=NOW) == Retire()


@pytest.mark.parametrize("reason", list(Reason))
def test_credential_is_used_meanwhile_only_when_its_server_accepts_it(reason: Reason) -> None:
    expected = reason in {Reason.RENEWAL_DUE, Reason.ROTATION_REQUESTED, Reason.LIFETIME_LOWERED}

    assert is_usable(Obtain(reason)) is expected


def test_pause_grows_with_failures_and_ends_with_a_success() -> None:
    pause, at = GrowingPause(MINUTE, 5 * MINUTE), NOW
    lengths = []
    for _ in range(5):
        pause.record(at, failed=True)
        pause.record(at, failed=True)  # within the pause
        lengths.append(pause.left(at) / MINUTE)
        at += pause.left(at)

    assert lengths == [1, 2, 4, 5, 5]
    assert not pause.left(at - 10 * MINUTE)  # the clock was set back
    pause.record(at, failed=True, succeeded=True)
    assert not pause.left(at)
