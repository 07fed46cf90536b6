"""Which certificate is requested, what the hub's decision means, and what a certificate held is worth."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TypeAlias

from watchword.api.bootstrap import USER_PREFIX
from watchword.api.credential_report import CredentialValidity, certificate_id, format_validity
from watchword.api.meta import Object
from watchword.api.names import KUBE_CLIENT_SIGNER, Label
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339
from watchword.credentials import lifecycle
from watchword.credentials.certificates import approval
from watchword.credentials.certificates.issued_certificate import (
    IssuedCertificate,
    validate_client_certificate,
    validate_issued_certificate,
)
from watchword.credentials.certificates.request import CertificateSpec, certificate_request_manifest
from watchword.credentials.credential_kind import HeldCredential
from watchword.credentials.driver import (
    ENDPOINT_CONFIG,
    CredentialAssessment,
    NewCredential,
    NewKey,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
    honoured_rotation,
)
from watchword.credentials.errors import CredentialUnreadable
from watchword.pki.certificates import Certificate, parse_certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CLIENT_USAGES, AlternativeNames, CertificateSubject

KEY, CERTIFICATE, PENDING_KEY = "tls.key", "tls.crt", "pending.key"

LoadKey: TypeAlias = Callable[[bytes], PrivateKey]
"""Reads a private key in PEM; raises `PkiError`."""

IMMEDIATELY = timedelta(0)
NOTHING_OBTAINED: Mapping[str, datetime] = {}
RECHECK_INTERVAL = timedelta(minutes=2)  # a decision triggers a reconcile; this is for an event that was lost
LONGEST_RECHECK_INTERVAL = timedelta(minutes=30)
RETRY_AFTER_REFUSAL = timedelta(minutes=2)  # less than the usual timeout of `accept --wait`
ISSUANCE_TIMEOUT = timedelta(minutes=15)


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
    decided = [request for request in requests if not approval.is_pending(request)]
    own = [request for request in requests if not _is_superseded(wanted, request)]
    return next(iter(decided or own), None)


def _is_superseded(wanted: WantedCredential, request: Object) -> bool:
    asked = str((request.get("spec") or {}).get("username") or "")
    return bool(wanted.requester) and asked.startswith(USER_PREFIX) and asked != wanted.requester


def certificate_spec(
    wanted: WantedCredential, key: PrivateKey, lifetime: timedelta | None = None, *, name: str = ""
) -> CertificateSpec:
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
    return certificate_request_manifest(certificate_spec(wanted, key, lifetime, name=name), key)


def assess_certificate(
    wanted: WantedCredential,
    held: SecretData,
    *,
    now: datetime,
    lifetime: timedelta | None = None,
    load_key: LoadKey = PrivateKey.from_pem,
    obtained: Mapping[str, datetime] = NOTHING_OBTAINED,
) -> CredentialAssessment:
    """Decide what becomes of the certificate in a Secret.

    `lifetime` is the one that is requested; `obtained` tells when this process obtained certificates, by their ids.
    """
    leaf = _read_client_certificate(held, load_key)
    if isinstance(leaf, lifecycle.Reason):
        return CredentialAssessment(lifecycle.Obtain(leaf), None)
    target = lifecycle.Wanted(
        lifecycle.Subject(wanted.subject.user, frozenset(wanted.subject.groups)),
        seed=leaf.key.thumbprint,
        lifetime=lifetime,
        rotation=wanted.rotation,
    )
    subject = lifecycle.Subject(leaf.common_name, frozenset(leaf.organisations))
    found = lifecycle.Held(subject, leaf.not_before, leaf.not_after, rotation=honoured_rotation(held))
    identifier = certificate_id(leaf.der)
    evidence = lifecycle.Evidence(
        refused=identifier == wanted.refused_id,
        issued_life=leaf.not_after - leaf.not_before if identifier in obtained else IMMEDIATELY,
        obtained_at=obtained.get(identifier),
    )
    decision = lifecycle.decide(target, found, evidence, now=now)
    if not lifecycle.is_usable(decision):
        return CredentialAssessment(decision, None)
    until = decision.until if isinstance(decision, lifecycle.Keep) else _renewal_time(leaf)
    valid = ValidCredential(until, leaf.not_after, _describe(leaf), leaf.not_before, identifier)
    return CredentialAssessment(decision, valid)


def _read_client_certificate(held: SecretData, load_key: LoadKey) -> Certificate | lifecycle.Reason:
    if KEY not in held or CERTIFICATE not in held:
        return lifecycle.Reason.MISSING
    try:
        issued = IssuedCertificate(load_key(held[KEY]), split_bundle(held[CERTIFICATE]))
    except PkiError:
        return lifecycle.Reason.TAMPERED
    return lifecycle.Reason.TAMPERED if validate_client_certificate(issued) else issued.certificate


def read_held_certificate(held: SecretData) -> HeldCredential | None:
    """Return the content of the certificate in a Secret, None when there is none; raise `CredentialUnreadable`."""
    if CERTIFICATE not in held:
        return None
    try:
        leaf = parse_certificate(held[CERTIFICATE])
    except PkiError as cause:
        raise CredentialUnreadable(f"the certificate cannot be read: {cause}") from cause
    return HeldCredential(leaf.common_name, CredentialValidity(leaf.not_before, leaf.not_after), leaf.key.thumbprint)


def read_api_server_certificate(held: SecretData) -> HeldCredential | None:
    """Return the same, None also for a certificate that is for another endpoint than the API server."""
    return None if ENDPOINT_CONFIG in held else read_held_certificate(held)


def read_endpoint_certificate(held: SecretData) -> HeldCredential | None:
    """Return the same, None also for a certificate that is for the API server."""
    return read_held_certificate(held) if ENDPOINT_CONFIG in held else None


def read_pending_key(held: SecretData) -> str:
    """Return the thumbprint of the key whose request is under way, empty when there is none that can be read."""
    try:
        return PrivateKey.from_pem(Sensitive(held[PENDING_KEY])).public.thumbprint
    except (KeyError, PkiError):
        return ""


def is_obsolete_join_request(wanted: WantedCredential, held: SecretData, request: Object, *, now: datetime) -> bool:
    """Whether a member waits for a request that it made as a joining cluster, which the hub does not decide any more.

    With a certificate that is still good it can make another one as itself.
    """
    if not approval.is_pending(request) or assess_certificate(wanted, held, now=now).valid is None:
        return False
    return bool((request.get("spec") or {}).get("username") != wanted.subject.user)


def decide_request_outcome(
    spec: CertificateSpec, key: PrivateKey, request: Object, *, now: datetime, new_key: NewKey = PrivateKey.generate
) -> ObtainResult:
    """Return what the hub's decision so far means; some time after a refusal another key is used."""
    decision = approval.read_decision(request)
    if decision.verdict in (approval.DENIED, approval.FAILED):
        reason = "CSRDenied" if decision.verdict == approval.DENIED else "CSRFailed"
        message = f"the hub {decision.verdict.lower()} the request: {decision.message or decision.reason}"
        return _refused(reason, message, decision.decided_at, now=now, new_key=new_key)
    if decision.verdict != approval.APPROVED:
        return awaiting_approval(request["metadata"]["name"], recheck=choose_recheck_interval(request, now=now))
    if not decision.certificate:
        return _decide_unissued(decision, str((request.get("spec") or {}).get("signerName")), now=now)
    answer = _read_certificate(spec, key, decision.certificate, now=now)
    if isinstance(answer, NewCredential):
        return answer
    message = f"the certificate from the hub is not used: {answer}"
    return _refused("CertificateMismatch", message, decision.decided_at, now=now, new_key=new_key)


def _refused(reason: str, message: str, since: datetime | None, *, now: datetime, new_key: NewKey) -> Pending:
    """Wait before another key is made: storing it triggers a reconcile, and a request made at once is refused again."""
    left = RETRY_AFTER_REFUSAL - (now - since) if since is not None else IMMEDIATELY
    if left > IMMEDIATELY:
        return Pending(reason, message, recheck=left, failed=True)
    return Pending(reason, message, recheck=IMMEDIATELY, failed=True, keep={PENDING_KEY: new_key().pem.reveal()})


def _read_certificate(spec: CertificateSpec, key: PrivateKey, encoded: str, *, now: datetime) -> NewCredential | str:
    try:
        issued = IssuedCertificate.from_status(key, encoded)
    except PkiError as cause:
        return str(cause)
    # The hub's clock counts: an agent that is behind it must not refuse the only credential that it can get.
    instant = max(now, issued.certificate.not_before)
    objection = validate_issued_certificate(issued, spec.subject, now=instant, lifetime=spec.lifetime)
    if objection:
        return objection
    leaf = issued.certificate
    return NewCredential(
        data={KEY: key.pem.reveal(), CERTIFICATE: issued.chain_pem},
        issued_at=leaf.not_before,
        expires_at=leaf.not_after,
        renew_at=_renewal_time(leaf),
        message=_describe(leaf),
        credential_id=certificate_id(leaf.der),
    )


def _describe(certificate: Certificate) -> str:
    validity = CredentialValidity(certificate.not_before, certificate.not_after, _renewal_time(certificate))
    return f"client certificate {format_validity(validity)}"


def _decide_unissued(decision: approval.RequestDecision, signer: str, *, now: datetime) -> Pending:
    if decision.decided_at is None or now - decision.decided_at < ISSUANCE_TIMEOUT:
        message = f"the request is approved, and waits for signer {signer} to issue the certificate"
        return Pending("AwaitingCertificate", message, recheck=RECHECK_INTERVAL)
    advice = (
        "this hub may not sign client certificates, so register with another driver"
        if signer == KUBE_CLIENT_SIGNER
        else f"does the controller of signer {signer} run?"
    )
    message = f"the request was approved but no certificate was issued: {advice}"
    return Pending("CertificateNotIssued", message, recheck=RETRY_AFTER_REFUSAL, failed=True)


def _renewal_time(certificate: Certificate) -> datetime:
    return lifecycle.choose_renewal_time(certificate.not_before, certificate.not_after, seed=certificate.key.thumbprint)


def choose_recheck_interval(request: Object, *, now: datetime) -> timedelta:
    """Return when to look again at a request that waits: the longer it has waited, the later."""
    created = parse_rfc3339(str(request["metadata"].get("creationTimestamp") or ""))
    waited = now - created if created is not None else IMMEDIATELY
    return min(max(waited / 4, RECHECK_INTERVAL), LONGEST_RECHECK_INTERVAL)


def awaiting_approval(request: str, *, recheck: timedelta = RECHECK_INTERVAL) -> Pending:
    return Pending("AwaitingHubApproval", f"request {request} waits for approval on the hub", recheck=recheck)
