"""Obtains a token for an add-on: requested with the cluster's own credential, for one ServiceAccount."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.addons.token.driver import DEFAULT_LIFETIME, MIN_RECOMMENDED_LIFETIME, token_lifetime
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.meta import ObjectKey
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials import lifecycle
from watchword.credentials.driver import (
    AgentContext,
    CredentialAssessment,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
    honoured_rotation,
    rotation_data,
)
from watchword.credentials.evidence import TokenEvidence, TokenRequest
from watchword.credentials.lifecycle import BoundToken, read_bound_token
from watchword.kube import errors
from watchword.kube.client import Client
from watchword.kube.kubeconfig import UserEntry
from watchword.runtime.clock import Clock

TOKEN = "token"  # noqa: S105 - the name of a key
EXPIRATION, ACCOUNT_UID, REFRESH_AT = "expiration", "service-account-uid", "refresh-at"


def read_token(held: SecretData) -> BoundToken | None:
    return read_bound_token(held.get(TOKEN, b"").decode(errors="replace"))


def wanted_token(wanted: WantedCredential, token: BoundToken | None, *, asked: timedelta) -> lifecycle.Wanted:
    """Return the token that the add-on should have; its account is not compared while the hub does not name it."""
    uid = wanted.service_account_uid or ("" if token is None else token.account_uid)
    subject = lifecycle.Subject(wanted.subject.user, account_uid=uid)
    return lifecycle.Wanted(
        subject, seed=f"{wanted.cluster}/{wanted.addon}/{uid}", lifetime=asked, rotation=wanted.rotation
    )


def held_token(held: SecretData) -> lifecycle.Held | lifecycle.Reason:
    """Return the token that a Secret holds.

    The other keys of the Secret have to agree with the token: a Secret that was edited by hand is written again. OCM's
    agent stores the token alone; that one is kept, and renewed when the token itself says so.
    """
    token = read_token(held)
    if token is None:
        return lifecycle.Reason.TAMPERED if TOKEN in held else lifecycle.Reason.MISSING
    beside = {EXPIRATION: rfc3339(token.expires_at).encode(), ACCOUNT_UID: token.account_uid.encode()}
    refresh = None
    if any(name in held for name in (*beside, REFRESH_AT)):
        refresh = _stored_refresh(token, held)
        if refresh is None or any(held.get(name) != value for name, value in beside.items()):
            return lifecycle.Reason.TAMPERED
    return lifecycle.Held(
        lifecycle.Subject(token.subject, account_uid=token.account_uid),
        token.issued_at,
        token.expires_at,
        rotation=honoured_rotation(held),
        renew_at=refresh,
    )


def assess_token(
    wanted: WantedCredential,
    held: SecretData,
    evidence: TokenEvidence,
    *,
    now: datetime,
    asked: timedelta = DEFAULT_LIFETIME,
    obstacle: lifecycle.Obstacle | None = None,
) -> CredentialAssessment:
    """Decide what becomes of the token in a Secret; `asked` is the lifetime that is requested."""
    token, found = read_token(held), held_token(held)
    target = wanted_token(wanted, token, asked=asked)
    if token is None or isinstance(found, lifecycle.Reason):
        return CredentialAssessment(
            lifecycle.decide(target, found, lifecycle.Evidence(obstacle=obstacle), now=now), None
        )
    known = replace(evidence.about(token, seed=target.seed, requested=asked), obstacle=obstacle)
    decision, refresh = lifecycle.decide(target, found, known, now=now), lifecycle.find_renewal_time(target, found)
    if refresh is None or not lifecycle.is_usable(decision):
        return CredentialAssessment(decision, None)
    until = decision.until if isinstance(decision, lifecycle.Keep) else refresh
    message = describe_token(wanted, token, refresh, asked=asked)
    valid = ValidCredential(until, token.expires_at, message, token.issued_at, token.credential_id)
    return CredentialAssessment(decision, valid)


def build_token_credential(
    wanted: WantedCredential, text: Sensitive[str], token: BoundToken, *, asked: timedelta = DEFAULT_LIFETIME
) -> NewCredential:
    seed = wanted_token(wanted, token, asked=asked).seed
    refresh = lifecycle.choose_renewal_time(token.issued_at, token.expires_at, seed=seed)
    data = {
        TOKEN: text.reveal().encode(),
        EXPIRATION: rfc3339(token.expires_at).encode(),
        ACCOUNT_UID: token.account_uid.encode(),
        REFRESH_AT: rfc3339(refresh).encode(),
        **rotation_data(wanted),
    }
    message = describe_token(wanted, token, refresh, asked=asked)
    return NewCredential(data, token.issued_at, token.expires_at, refresh, message, token.credential_id)


def describe_token(
    wanted: WantedCredential, token: BoundToken, refresh: datetime, *, asked: timedelta = DEFAULT_LIFETIME
) -> str:
    """Return the message of the condition: the same text for the same token at any time."""
    said = [f"the token of ServiceAccount {wanted.cluster}/{wanted.service_account}"]
    if token.lifetime < asked:
        second = timedelta(seconds=1)
        said.append(f"(the hub shortened {asked // second} seconds to {token.lifetime // second})")
    if token.lifetime < MIN_RECOMMENDED_LIFETIME:
        said.append("(less than an hour is meant for tests)")
    validity = CredentialValidity(token.issued_at, token.expires_at, refresh)
    return f"{' '.join(said)} is {format_validity(validity)}"


def _stored_refresh(token: BoundToken, held: SecretData) -> datetime | None:
    """Return the instant chosen when the token was issued, None when what is noted is not plausible."""
    noted = parse_rfc3339(held.get(REFRESH_AT, b"").decode(errors="replace"))
    latest = token.issued_at + token.lifetime * lifecycle.RENEWAL_WINDOW.end
    return noted if noted is not None and token.issued_at <= noted <= latest else None


INFRASTRUCTURE_RECHECK = timedelta(minutes=5)  # the hub's condition triggers a reconcile; this is for a lost event
FIRST_RETRY_DELAY, LONGEST_RETRY_DELAY = timedelta(seconds=10), timedelta(minutes=5)
TRANSIENT_RETRY_DELAY = timedelta(seconds=0.5)  # the hub reports rights that its API server may observe a moment later

REASONS: tuple[tuple[type[errors.KubeError], str], ...] = (
    (errors.Unauthorized, "ClusterCredentialRefused"),
    (errors.Forbidden, "TokenRequestForbidden"),
    (errors.NotFound, "ServiceAccountMissing"),
    (errors.Invalid, "TokenRequestInvalid"),
    (errors.Unreachable, "HubUnreachable"),
    (errors.KubeError, "TokenCreationFailed"),
)
"""What a refusal means, for conditions; the first that fits."""

AWAITING_ACCOUNT = "AwaitingTokenInfrastructure"
TRANSIENT_REASONS = frozenset({"TokenRequestForbidden", "ServiceAccountMissing"})
"""Refusals that usually end by themselves: an API server behind the one that the hub wrote to."""


class FailedAttempt(Struct, frozen=True):
    """An attempt that failed: the same is not tried again before its time, however often it is triggered."""

    wanted: WantedCredential
    answer: Pending
    failures: int
    not_before: datetime


class TokenAgentDriver(Struct, frozen=True):
    """Obtains and renews one token for each add-on; the issued lifetime counts, not the requested one."""

    hub: Client
    clock: Clock
    lifetime: timedelta = DEFAULT_LIFETIME  # requested; what was issued decides
    evidence: TokenEvidence = field(default_factory=TokenEvidence)  # of the hub
    failed_attempts: dict[tuple[str, str], FailedAttempt] = field(default_factory=dict)

    @classmethod
    def make(cls, context: AgentContext) -> TokenAgentDriver:
        return cls(context.hub, context.clock, token_lifetime(context.settings), context.evidence)

    def user_entry(self) -> UserEntry:
        return UserEntry(token_file=Path(TOKEN))

    def owned_keys(self) -> frozenset[str]:
        return frozenset({TOKEN, EXPIRATION, ACCOUNT_UID, REFRESH_AT})

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        return assess_token(wanted, held, self.evidence, now=self.clock.now(), asked=self.lifetime).valid

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        """Keep a valid token, and request another at its instant; never twice in quick succession without need."""
        now = self.clock.now()
        failed = self.failed_attempts.get((wanted.cluster, wanted.addon))
        failed = failed if failed is not None and failed.wanted == wanted else None
        obstacle = self._find_obstacle(wanted, failed, now)
        found = assess_token(wanted, held, self.evidence, now=now, asked=self.lifetime, obstacle=obstacle)
        if isinstance(found.decision, lifecycle.Keep) and found.valid is not None:
            return found.valid
        if isinstance(found.decision, lifecycle.Wait):
            return _answer_waiting(failed, found.decision, now)
        answer = await self._request(wanted)
        if isinstance(answer, Pending):
            return self._record_failure(wanted, failed, answer)
        self.failed_attempts.pop((wanted.cluster, wanted.addon), None)
        return answer

    def _find_obstacle(
        self, wanted: WantedCredential, failed: FailedAttempt | None, now: datetime
    ) -> lifecycle.Obstacle | None:
        if not wanted.service_account_uid:
            return lifecycle.Obstacle(AWAITING_ACCOUNT, now + INFRASTRUCTURE_RECHECK)
        return None if failed is None else lifecycle.Obstacle(failed.answer.reason, failed.not_before)

    async def _request(self, wanted: WantedCredential) -> NewCredential | Pending:
        account = ObjectKey(wanted.cluster, wanted.service_account)
        request = TokenRequest(account=account, uid=wanted.service_account_uid, lifetime=self.lifetime)
        try:
            granted = await self.evidence.obtain(self.hub, request, now=self.clock.now())
        except errors.KubeError as error:
            return decide_refusal(error)
        token = read_bound_token(granted.token.reveal())
        if token is None or token.expires_at <= self.clock.now():
            return _failed(
                "TokenAlreadyExpired",
                "the hub's token has expired by this cluster's clock: synchronise the clocks of hub and cluster",
            )
        return build_token_credential(wanted, granted.token, token, asked=self.lifetime)

    def _record_failure(self, wanted: WantedCredential, before: FailedAttempt | None, answer: Pending) -> Pending:
        failures = before.failures + 1 if before is not None else 1
        pause = choose_retry_delay(failures, transient=answer.reason in TRANSIENT_REASONS)
        key = (wanted.cluster, wanted.addon)
        self.failed_attempts[key] = FailedAttempt(wanted, answer, failures, self.clock.now() + pause)
        return replace(answer, recheck=pause)


def decide_refusal(error: errors.KubeError) -> Pending:
    """Return why there is no token, as text that stays the same while the reason does."""
    if isinstance(error, errors.MalformedResponse):
        return _failed("TokenUnreadable", f"the hub's answer holds no token that can be used: {error}")
    if isinstance(error, errors.Conflict):
        return _failed("ServiceAccountRecreated", str(error))
    reason = next(name for kind, name in REASONS if isinstance(error, kind))
    who = "the hub refused the token request" if isinstance(error, errors.ApiStatusError) else "the hub cannot be asked"
    return _failed(reason, f"{who}: {error}")


def choose_retry_delay(failures: int, *, transient: bool = False) -> timedelta:
    """Return how long to wait after so many failures in a row: seldom more often than every ten seconds.

    Failures that usually resolve themselves are retried at once, and soon as seldom as others.
    """
    first, growth = (TRANSIENT_RETRY_DELAY, 4) if transient else (FIRST_RETRY_DELAY, 2)
    factor: int = growth ** min(failures - 1, 10)
    return min(first * factor, LONGEST_RETRY_DELAY)


def _failed(reason: str, message: str) -> Pending:
    return Pending(reason, message, recheck=FIRST_RETRY_DELAY, failed=True)


def _answer_waiting(failed: FailedAttempt | None, wait: lifecycle.Wait, now: datetime) -> Pending:
    if failed is not None and wait.for_what != AWAITING_ACCOUNT:
        return replace(failed.answer, recheck=wait.until - now)
    message = "waiting for the hub to report the add-on's ServiceAccount in TokenInfrastructureReady"
    return Pending(AWAITING_ACCOUNT, message, recheck=wait.until - now)
