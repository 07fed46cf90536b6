"""Decides what becomes of a credential: it is kept, obtained anew, waited for, or retired.

Every pillar decides here. It supplies what is wanted, what is held (read from where it lies), and the evidence: what
the server that must honour the credential has said. A credential that its server refuses is bad, whatever it says of
itself.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from watchword.api.credential_report import token_id
from watchword.api.meta import mapping_at
from watchword.api.time import bounded
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import audiences_of, split_token


class RenewalWindow(Struct, frozen=True):
    """The part of a credential's validity within which it is renewed, as fractions."""

    start: float
    end: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.start < self.end <= 1.0:
            raise ValueError(f"a renewal window lies between 0 and 1 and has a length, not {self.start} to {self.end}")


RENEWAL_WINDOW = RenewalWindow(0.4, 0.8)
"""Wide, because credentials are issued together when a fleet starts, and again when a CA or a signing key changes."""


def choose_renewal_time(
    issued_at: datetime, expires_at: datetime, *, seed: str, window: RenewalWindow = RENEWAL_WINDOW
) -> datetime:
    """Choose the instant of renewal from what was issued.

    The choice depends on its arguments only, so every restart and every reconcile chooses the same; `seed` (a UID,
    a name) spreads credentials that were issued together. An empty or negative validity is due immediately.
    """
    life = expires_at - issued_at
    if life <= timedelta(0):
        return issued_at
    drawn = draw(f"{seed}\n{issued_at.timestamp()}\n{expires_at.timestamp()}")
    return issued_at + life * (window.start + (window.end - window.start) * drawn)


def draw(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") / 2**56


LIFETIME_TOLERANCE = timedelta(minutes=10)
"""Signers date the start of a certificate back by some minutes; a lifetime that is longer by this is not lowered."""


LONGEST_PAUSE = timedelta(minutes=10)
"""How long a credential is not renewed after it was obtained: where clocks disagree, a new one may be due at once."""


class Reason(StrEnum):
    """Why a credential is obtained; a label of metrics."""

    MISSING = "missing"
    TAMPERED = "tampered"  # what is stored cannot be read, or its parts do not fit together
    SUBJECT_CHANGED = "subject-changed"  # of another user, or of an account that was created again
    AUDIENCE_CHANGED = "audience-changed"
    REQUEST_CHANGED = "request-changed"  # another one was requested than is wanted now
    PLACE_CHANGED = "place-changed"  # what is stored with it: registries, the authority of the server
    LIFETIME_LOWERED = "lifetime-lowered"
    EXPIRED = "expired"
    REFUSED = "refused"
    KEY_WITHDRAWN = "key-withdrawn"
    ROTATION_REQUESTED = "rotation-requested"
    RENEWAL_DUE = "renewal-due"


USABLE = frozenset({Reason.LIFETIME_LOWERED, Reason.ROTATION_REQUESTED, Reason.RENEWAL_DUE})
"""Reasons to obtain another credential while the one that is held still works."""


class Subject(Struct, frozen=True):
    """The identity that a credential proves."""

    user: str
    groups: frozenset[str] = frozenset()
    account_uid: str = ""  # of the ServiceAccount: one that is created again has another
    secret_uid: str = ""  # of the Secret that a token is bound to


class Wanted(Struct, frozen=True):
    """The credential that a place should hold."""

    subject: Subject
    seed: str  # spreads the renewals of credentials that were issued together
    audiences: tuple[str, ...] = ()  # empty: those of the server, which are not compared
    lifetime: timedelta | None = None  # at most; None: the server decides
    request: str = ""  # what is requested, where the place records it
    place: str = ""  # what is stored with it
    rotation: str = ""  # the last request for an early renewal
    renews: bool = True  # False: it is left to expire
    window: RenewalWindow = RENEWAL_WINDOW


class Held(Struct, frozen=True):
    """A credential that is held: its own claims, and what its Secret records of it."""

    subject: Subject
    issued_at: datetime
    expires_at: datetime
    audiences: tuple[str, ...] = ()
    request: str = ""
    place: str = ""
    rotation: str = ""  # the request for an early renewal that it has honoured
    renew_at: datetime | None = None  # as recorded when it was issued; None: chosen from its validity


class Obstacle(Struct, frozen=True):
    """Why no credential can be obtained at present: the server denied it, or something is missing."""

    what: str
    until: datetime


class Evidence(Struct, frozen=True):
    """What the server has said of the credential held, and of requests for another."""

    refused: bool = False  # it answered 401 to this very credential
    withdrawn_at: datetime | None = None  # from then on its signing key does not count
    issued_life: timedelta = timedelta(0)  # the lifetime issued for the present request, which may be a longer one
    obtained_at: datetime | None = None  # when this process obtained the credential held, by its own clock
    obstacle: Obstacle | None = None


class Keep(Struct, frozen=True):
    """The credential is good; look again at that instant, or never when it is None."""

    until: datetime | None


class Obtain(Struct, frozen=True):
    """Obtain another credential now."""

    reason: Reason


class Wait(Struct, frozen=True):
    """Another credential is needed, and cannot be obtained before that instant."""

    for_what: str
    until: datetime
    reason: Reason


class Retire(Struct, frozen=True):
    """No credential is wanted: remove what is held."""


Decision: TypeAlias = Keep | Obtain | Wait | Retire


def decide(wanted: Wanted | None, held: Held | Reason, evidence: Evidence, *, now: datetime) -> Decision:
    """Decide from facts alone; `held` is a reason when the place holds no credential that can be read.

    A credential whose validity begins later is kept: the clock of this machine was set back, and the server's counts.
    """
    if wanted is None:
        return Retire()
    reason = held if isinstance(held, Reason) else _judge(wanted, held, evidence, now)
    if isinstance(reason, Keep):
        return reason
    if evidence.obstacle is not None and now < evidence.obstacle.until:
        return Wait(evidence.obstacle.what, evidence.obstacle.until, reason)
    return Obtain(reason)


def is_usable(decision: Decision) -> bool:
    return isinstance(decision, Keep) or (isinstance(decision, Obtain | Wait) and decision.reason in USABLE)


def find_renewal_time(wanted: Wanted, held: Held) -> datetime | None:
    if not wanted.renews:
        return None
    chosen = choose_renewal_time(held.issued_at, held.expires_at, seed=wanted.seed, window=wanted.window)
    return held.renew_at or chosen


def _judge(wanted: Wanted, held: Held, evidence: Evidence, now: datetime) -> Reason | Keep:
    """Return the first reason to replace a credential that can be read, or until when there is none."""
    longest = None if wanted.lifetime is None else max(wanted.lifetime, evidence.issued_life) + LIFETIME_TOLERANCE
    renew_at, rests_until = find_renewal_time(wanted, held), _find_rest(held, evidence, now)
    reasons = (
        (Reason.SUBJECT_CHANGED, held.subject != wanted.subject),
        (Reason.AUDIENCE_CHANGED, bool(wanted.audiences) and sorted(held.audiences) != sorted(wanted.audiences)),
        (Reason.REQUEST_CHANGED, held.request != wanted.request),
        (Reason.PLACE_CHANGED, held.place != wanted.place),
        (Reason.EXPIRED, wanted.renews and now >= max(held.expires_at, rests_until)),
        (Reason.REFUSED, evidence.refused),
        (Reason.KEY_WITHDRAWN, evidence.withdrawn_at is not None and now >= evidence.withdrawn_at),
        # Until its end, too: a signer may date its start back, and one that ends sooner than a new one is left alone.
        (Reason.LIFETIME_LOWERED, longest is not None and held.expires_at - max(held.issued_at, now) > longest),
        # Compared, for the clocks of the machines may disagree; a request that was withdrawn asks for nothing.
        (Reason.ROTATION_REQUESTED, bool(wanted.rotation) and held.rotation != wanted.rotation),
        (Reason.RENEWAL_DUE, renew_at is not None and now >= max(renew_at, rests_until)),
    )
    due = (at for at in (renew_at and max(renew_at, rests_until), evidence.withdrawn_at) if at is not None)
    return next((reason for reason, applies in reasons if applies), Keep(min(due, default=None)))


def _find_rest(held: Held, evidence: Evidence, now: datetime) -> datetime:
    """Return until when a credential that was just obtained is not renewed, whatever the clock of this machine says."""
    obtained = evidence.obtained_at
    if obtained is None or obtained > now:  # the clock was set back, and tells nothing
        return held.issued_at
    return obtained + min(LONGEST_PAUSE, (held.expires_at - held.issued_at) / 10)


LATEST_SECONDS = 253_402_300_799  # the last second of the year 9999: a datetime holds no later one


class GrowingPause(Struct):
    """A time without another attempt: twice as long after each failure; a success ends it."""

    first: timedelta
    longest: timedelta
    _failures: int = 0
    _length: timedelta = timedelta(0)
    _until: datetime | None = None

    def left(self, now: datetime) -> timedelta:
        """Return how long it lasts; zero when it is over, or the clock was set back to before it began."""
        left = self._until - now if self._until is not None else timedelta(0)
        return left if timedelta(0) < left <= self._length else timedelta(0)

    def record(self, now: datetime, *, failed: bool, succeeded: bool = False) -> None:
        """Take an attempt into account; a failure within a pause makes it no longer."""
        if succeeded:
            self._failures, self._until = 0, None
        elif failed and not self.left(now):
            self._length = min(self.first * 2 ** min(self._failures, 16), self.longest)
            self._failures, self._until = self._failures + 1, now + self._length


class BoundToken(Struct, frozen=True):
    """The claims of a token.

    No signature was checked: the claims decide only whether another token is requested. The server that honours the
    token verifies it at every use.
    """

    subject: str  # the user name of the ServiceAccount
    account_uid: str
    issued_at: datetime
    expires_at: datetime
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    key_id: str = ""  # of the key that signed it
    secret_uid: str = ""  # of the Secret that it is bound to
    credential_id: str = ""  # as audit logs name it

    @property
    def holder(self) -> tuple[str, str]:
        """What the token was issued for; another one replaces it."""
        return self.subject, self.secret_uid

    @property
    def lifetime(self) -> timedelta:
        return self.expires_at - self.issued_at


def read_bound_token(text: str) -> BoundToken | None:
    """Return the claims of a token, None when it is no JWT or has no validity period."""
    try:
        header, claims = split_token(text)
    except InvalidJwt:
        return None
    issued, expires = _instant(claims.get("iat")), _instant(claims.get("exp"))
    if issued is None or expires is None or expires <= issued:
        return None
    private = mapping_at(claims, "kubernetes.io")
    return BoundToken(
        subject=str(claims.get("sub") or ""),
        account_uid=str(mapping_at(private, "serviceaccount").get("uid") or ""),
        issued_at=issued,
        expires_at=expires,
        audiences=audiences_of(claims),
        issuer=str(claims.get("iss") or ""),
        key_id=str(header.get("kid") or ""),
        secret_uid=str(mapping_at(private, "secret").get("uid") or ""),
        credential_id=token_id(claims.get("jti")),
    )


def _instant(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_SECONDS:
        return None
    return bounded(datetime.fromtimestamp(int(value), UTC))
