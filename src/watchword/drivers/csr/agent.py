"""Obtains a client certificate: a key, one request for it, and waiting for the hub's decision."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

from watchword.api.bootstrap import USER_PREFIX
from watchword.api.conditions import is_true
from watchword.api.credential_validity import CredentialValidity, format_validity
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.api.sensitive import Sensitive
from watchword.certificates.approval import APPROVED, DENIED, FAILED, RequestDecision, is_pending, read_decision
from watchword.certificates.issued_certificate import (
    IssuedCertificate,
    validate_held_certificate,
    validate_issued_certificate,
)
from watchword.certificates.request import CertificateSpec, certificate_request_manifest
from watchword.drivers.csr.options import certificate_lifetime
from watchword.drivers.descriptor import HeldCredential
from watchword.drivers.errors import CredentialUnreadable
from watchword.drivers.interface import (
    AgentContext,
    NewCredential,
    NewKey,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
    is_due,
    is_renewal_requested,
    rotation_data,
)
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.kube.kubeconfig import UserEntry
from watchword.pki.certificates import Certificate, parse_certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.pki.usages import CLIENT_USAGES
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader
from watchword.runtime.renewal import choose_renewal_time

KEY, CERTIFICATE, PENDING_KEY = "tls.key", "tls.crt", "pending.key"

IMMEDIATELY = timedelta(0)
RECHECK_INTERVAL = timedelta(minutes=2)  # a decision triggers the reconciler; this is for a lost event
RETRY_AFTER_REFUSAL = timedelta(minutes=2)  # less than the usual timeout of `accept --wait`
ISSUANCE_TIMEOUT = timedelta(minutes=15)
JOIN_REQUEST_GRACE = timedelta(minutes=1)


@dataclass(frozen=True)
class CsrAgentDriver:
    """Obtains and renews one certificate.

    The key of a request is stored before the request is sent, and the request is named after the key: an agent that is
    killed continues with the same request instead of making another.
    """

    hub: Client
    reader: Reader
    clock: Clock
    new_key: NewKey = PrivateKey.generate
    lifetime: timedelta | None = None  # requested; None leaves it to the hub
    first_seen: dict[str, datetime] = field(
        default_factory=dict
    )  # the request waited for → since when, by our own clock

    @classmethod
    def make(cls, context: AgentContext) -> CsrAgentDriver:
        """Return the driver, ready to use."""
        return cls(context.hub, context.reader, context.clock, context.new_key, certificate_lifetime(context.settings))

    def user_entry(self) -> UserEntry:
        """Return the kubeconfig's user, with certificate and key in files beside it."""
        return UserEntry(certificate_file=Path(CERTIFICATE), key_file=Path(KEY))

    def owned_keys(self) -> frozenset[str]:
        """Return the keys that go when another driver takes over."""
        return frozenset({KEY, CERTIFICATE, PENDING_KEY})

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        """Return until when the held certificate is valid, without a request."""
        return decide_certificate_validity(wanted, held, now=self.clock.now())

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        """Keep a valid credential, follow up a pending request, send a missing one."""
        now = self.clock.now()
        pending = held.get(PENDING_KEY)
        if pending is None:
            current = decide_certificate_validity(wanted, held, now=now)
            if current is None or is_due(current, now) or is_renewal_requested(wanted, held):
                return self._new_key(wanted)
            return current
        try:
            key = PrivateKey.from_pem(Sensitive(pending))
        except PkiError:
            return self._new_key(wanted)  # damaged beyond use: there is no other copy
        names = request_names(wanted, key)
        found = [self.reader.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name)) for name in names]
        request = choose_current_request(wanted, found)
        if request is None:
            return await self._create_request(wanted, key, names[0] if found[0] is None else names[-1])
        if (
            self._is_member(wanted)
            and self._is_grace_over(request, now)
            and is_obsolete_join_request(wanted, held, request, now=now)
        ):
            return self._new_key(wanted)
        spec = certificate_spec(wanted, key, self.lifetime)
        return decide_request_outcome(spec, key, request, now=now, new_key=self.new_key)

    def _is_member(self, wanted: WantedCredential) -> bool:
        """Whether the hub accepts this cluster; not checked for add-ons, which exist only on accepted clusters."""
        if wanted.addon:
            return False
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(wanted.cluster))
        return found is not None and is_true(found, ConditionType.HUB_ACCEPTED)

    def _is_grace_over(self, request: Object, now: datetime) -> bool:
        """Whether the agent had the time to become itself; by its own clock, for the hub's may be another."""
        name = request["metadata"]["name"]
        if name not in self.first_seen:
            self.first_seen.clear()
            self.first_seen[name] = now
        return now - self.first_seen[name] >= JOIN_REQUEST_GRACE

    def _new_key(self, wanted: WantedCredential) -> Pending:
        keep = {PENDING_KEY: self.new_key().pem.reveal(), **rotation_data(wanted)}
        return Pending("KeyCreated", "a key was made", recheck=IMMEDIATELY, keep=keep)

    async def _create_request(self, wanted: WantedCredential, key: PrivateKey, name: str) -> Pending:
        request = request_manifest(wanted, key, self.lifetime, name=name)
        with contextlib.suppress(AlreadyExists):  # sent before a restart: its event is on the way
            await self.hub.create(CERTIFICATE_SIGNING_REQUESTS, request)
        return _awaiting_approval(recheck=RECHECK_INTERVAL)


def request_name(wanted: WantedCredential, key: PrivateKey) -> str:
    """Return the request's name: the same for the same key."""
    prefix = f"addon-{wanted.cluster}-{wanted.addon}" if wanted.addon else wanted.cluster
    return f"{prefix}-{key.public.thumbprint[:12]}"


def request_names(wanted: WantedCredential, key: PrivateKey) -> list[str]:
    """Return the names of a key's requests: the first, and the one made again by a replaced bootstrap credential."""
    first = request_name(wanted, key)
    return [first, f"{first}-{sha256(wanted.requester.encode()).hexdigest()[:8]}"] if wanted.requester else [first]


def choose_current_request(wanted: WantedCredential, found: Sequence[Object | None]) -> Object | None:
    """Return the request that counts: a decided one, else one that the present requester made.

    The hub does not approve what was asked with a token that has expired since.
    """
    requests = [request for request in found if request is not None]
    decided = [request for request in requests if not is_pending(request)]
    own = [request for request in requests if not _is_superseded(wanted, request)]
    return next(iter(decided or own), None)


def _is_superseded(wanted: WantedCredential, request: Object) -> bool:
    asked = str((request.get("spec") or {}).get("username") or "")
    return bool(wanted.requester) and asked.startswith(USER_PREFIX) and asked != wanted.requester


def certificate_spec(
    wanted: WantedCredential, key: PrivateKey, lifetime: timedelta | None = None, *, name: str = ""
) -> CertificateSpec:
    """Return the certificate to request, labelled as the hub's approver expects it."""
    own_name = (f"{wanted.addon}.addon.open-cluster-management.io",) if wanted.addon else ()
    addon = {Label.ADDON_NAME: wanted.addon} if wanted.addon else {}
    return CertificateSpec(
        CertificateSubject(wanted.subject.user, wanted.subject.groups),
        wanted.signer,
        lifetime,
        name or request_name(wanted, key),
        usages=CLIENT_USAGES,
        names=AlternativeNames(dns=own_name),
        labels={Label.CLUSTER_NAME: wanted.cluster, **addon},
    )


def request_manifest(
    wanted: WantedCredential, key: PrivateKey, lifetime: timedelta | None = None, *, name: str = ""
) -> Object:
    """Return the request as the hub's approver expects it."""
    return certificate_request_manifest(certificate_spec(wanted, key, lifetime, name=name), key)


def decide_certificate_validity(wanted: WantedCredential, held: SecretData, *, now: datetime) -> ValidCredential | None:
    """Return until when the certificate held is good, or None when it must not be used."""
    try:
        issued = IssuedCertificate(PrivateKey.from_pem(Sensitive(held[KEY])), split_bundle(held[CERTIFICATE]))
    except (KeyError, PkiError):
        return None
    subject = CertificateSubject(wanted.subject.user, wanted.subject.groups)
    if validate_held_certificate(issued, subject, now=now):
        return None
    leaf = issued.certificate
    return ValidCredential(_renewal_time(leaf), leaf.not_after, _describe(leaf), leaf.not_before)


def read_held_certificate(held: SecretData) -> HeldCredential | None:
    """Return the content of the certificate in a Secret, None when there is none; raise `CredentialUnreadable`."""
    if CERTIFICATE not in held:
        return None
    try:
        leaf = parse_certificate(held[CERTIFICATE])
    except PkiError as cause:
        raise CredentialUnreadable(f"the certificate cannot be read: {cause}") from cause
    return HeldCredential(leaf.common_name, CredentialValidity(leaf.not_before, leaf.not_after))


def is_obsolete_join_request(wanted: WantedCredential, held: SecretData, request: Object, *, now: datetime) -> bool:
    """Whether a denied member waits for a request that it made as a joining cluster, which is never decided.

    With a certificate that is still valid it can request again under its own identity.
    """
    if not is_pending(request) or decide_certificate_validity(wanted, held, now=now) is None:
        return False
    return bool((request.get("spec") or {}).get("username") != wanted.subject.user)


def decide_request_outcome(
    spec: CertificateSpec, key: PrivateKey, request: Object, *, now: datetime, new_key: NewKey = PrivateKey.generate
) -> ObtainResult:
    """Return what the hub's decision so far means; some time after a refusal another key is used."""
    decision = read_decision(request)
    if decision.verdict in (DENIED, FAILED):
        reason = "CSRDenied" if decision.verdict == DENIED else "CSRFailed"
        message = f"the hub {decision.verdict.lower()} the request: {decision.message or decision.reason}"
        return _refused(reason, message, decision.decided_at, now=now, new_key=new_key)
    if decision.verdict != APPROVED:
        return _awaiting_approval(recheck=RECHECK_INTERVAL)
    if not decision.certificate:
        return _decide_unissued(decision, now=now)
    answer = _read_certificate(spec, key, decision.certificate, now=now)
    if isinstance(answer, NewCredential):
        return answer
    message = f"the certificate from the hub is not used: {answer}"
    return _refused("CertificateMismatch", message, decision.decided_at, now=now, new_key=new_key)


def _refused(reason: str, message: str, since: datetime | None, *, now: datetime, new_key: NewKey) -> Pending:
    """Wait before another key is made: storing it triggers a reconcile, and an immediate request is refused again."""
    left = RETRY_AFTER_REFUSAL - (now - since) if since is not None else IMMEDIATELY
    if left > IMMEDIATELY:
        return Pending(reason, message, recheck=left, failed=True)
    return Pending(reason, message, recheck=IMMEDIATELY, failed=True, keep=_as_pending(new_key()))


def _read_certificate(spec: CertificateSpec, key: PrivateKey, encoded: str, *, now: datetime) -> NewCredential | str:
    """Return the credential when the certificate is exactly the one that was requested, else why it is not."""
    try:
        issued = IssuedCertificate.from_status(key, encoded)
    except PkiError as cause:
        return str(cause)
    objection = validate_issued_certificate(issued, spec.subject, now=now, lifetime=spec.lifetime)
    if objection:
        return objection
    leaf = issued.certificate
    return NewCredential(
        data={KEY: key.pem.reveal(), CERTIFICATE: issued.chain_pem},
        issued_at=leaf.not_before,
        expires_at=leaf.not_after,
        renew_at=_renewal_time(leaf),
        message=_describe(leaf),
    )


def _describe(certificate: Certificate) -> str:
    validity = CredentialValidity(certificate.not_before, certificate.not_after, _renewal_time(certificate))
    return f"client certificate {format_validity(validity)}"


def _decide_unissued(decision: RequestDecision, *, now: datetime) -> Pending:
    if decision.decided_at is None or now - decision.decided_at < ISSUANCE_TIMEOUT:
        return _awaiting_approval(recheck=RECHECK_INTERVAL)
    message = (
        "the request was approved but no certificate was issued: this hub may not sign client certificates, "
        "so register with another driver"
    )
    return Pending("CertificateNotIssued", message, recheck=RETRY_AFTER_REFUSAL, failed=True)


def _renewal_time(certificate: Certificate) -> datetime:
    return choose_renewal_time(certificate.not_before, certificate.not_after, seed=certificate.key.thumbprint)


def _as_pending(key: PrivateKey) -> dict[str, bytes]:
    return {PENDING_KEY: key.pem.reveal()}


def _awaiting_approval(recheck: timedelta) -> Pending:
    message = "waiting for the hub's administrator to approve the request"
    return Pending("AwaitingHubApproval", message, recheck=recheck)
