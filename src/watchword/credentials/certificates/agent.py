"""Obtains a client certificate: a key, one request for it, and waiting for the hub's decision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.bootstrap import USER_PREFIX
from watchword.api.conditions import is_true
from watchword.api.credential_report import CredentialValidity, certificate_id, format_validity
from watchword.api.limits import LONGEST_CERTIFICATE_REQUEST
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339
from watchword.api.validation import parse_seconds
from watchword.credentials import driver, lifecycle
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.issued_certificate import (
    IssuedCertificate,
    validate_client_certificate,
    validate_issued_certificate,
)
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.credentials.errors import CredentialUnreadable
from watchword.credentials.evidence import CredentialClientFactory, Learn, TokenEvidence, log_unread, refusal_pause
from watchword.credentials.lifecycle import Keep, Obtain, Reason
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.credentials import Credential
from watchword.kube.errors import AlreadyExists, ClientCertificateRefused, ConfigError, KubeError, Unauthorized
from watchword.kube.kubeconfig import UserEntry
from watchword.kube.tls import ClientCertificate
from watchword.pki.certificates import Certificate, parse_certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CLIENT_USAGES, AlternativeNames, CertificateSubject
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader

KEY, CERTIFICATE, PENDING_KEY = "tls.key", "tls.crt", "pending.key"

LoadKey: TypeAlias = Callable[[bytes], PrivateKey]
"""Reads a private key in PEM; raises `PkiError`."""

IMMEDIATELY = timedelta(0)
RECHECK_INTERVAL = timedelta(minutes=2)  # a decision triggers a reconcile; this is for an event that was lost
LONGEST_RECHECK_INTERVAL = timedelta(minutes=30)
RETRY_AFTER_REFUSAL = timedelta(minutes=2)  # less than the usual timeout of `accept --wait`
ISSUANCE_TIMEOUT = timedelta(minutes=15)


def request_name(wanted: driver.WantedCredential, key: PrivateKey) -> str:
    """Return the request's name: the same for the same key."""
    prefix = f"addon-{wanted.cluster}-{wanted.addon}" if wanted.addon else wanted.cluster
    return f"{prefix}-{key.public.thumbprint[:12]}"


def request_names(wanted: driver.WantedCredential, key: PrivateKey) -> list[str]:
    """Return the names of a key's requests: the first, and the one made again by a replaced bootstrap credential."""
    first = request_name(wanted, key)
    return [first, f"{first}-{sha256(wanted.requester.encode()).hexdigest()[:8]}"] if wanted.requester else [first]


def choose_current_request(wanted: driver.WantedCredential, found: Sequence[Object | None]) -> Object | None:
    """Return the request that counts: a decided one, else one that the present requester made.

    The hub does not approve what was asked with a token that has expired since.
    """
    asked = [request for request in found if request is not None]
    decided = [request for request in asked if not requests.is_pending(request)]
    own = [request for request in asked if not _is_superseded(wanted, request)]
    return next(iter(decided or own), None)


def _is_superseded(wanted: driver.WantedCredential, request: Object) -> bool:
    asked = str((request.get("spec") or {}).get("username") or "")
    return bool(wanted.requester) and asked.startswith(USER_PREFIX) and asked != wanted.requester


def certificate_spec(
    wanted: driver.WantedCredential, key: PrivateKey, lifetime: timedelta | None = None, *, name: str = ""
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
    wanted: driver.WantedCredential, key: PrivateKey, lifetime: timedelta | None = None, *, name: str = ""
) -> Object:
    return certificate_request_manifest(certificate_spec(wanted, key, lifetime, name=name), key)


def assess_certificate(
    wanted: driver.WantedCredential,
    held: driver.SecretData,
    *,
    now: datetime,
    lifetime: timedelta | None = None,
    load_key: LoadKey = PrivateKey.from_pem,
    obtained: Mapping[str, datetime] = {},
) -> driver.CredentialAssessment:
    """Decide what becomes of the certificate in a Secret.

    `lifetime` is the one that is requested; `obtained` tells when this process obtained certificates, by their ids.
    """
    leaf = _read_client_certificate(held, load_key)
    if isinstance(leaf, lifecycle.Reason):
        return driver.CredentialAssessment(lifecycle.Obtain(leaf), None)
    target = lifecycle.Wanted(
        lifecycle.Subject(wanted.subject.user, frozenset(wanted.subject.groups)),
        seed=leaf.key.thumbprint,
        lifetime=lifetime,
        rotation=wanted.rotation,
    )
    subject = lifecycle.Subject(leaf.common_name, frozenset(leaf.organisations))
    found = lifecycle.Held(subject, leaf.not_before, leaf.not_after, rotation=driver.honoured_rotation(held))
    identifier = certificate_id(leaf.der)
    evidence = lifecycle.Evidence(
        refused=identifier in wanted.refused,
        issued_life=leaf.not_after - leaf.not_before if identifier in obtained else IMMEDIATELY,
        obtained_at=obtained.get(identifier),
    )
    decision = lifecycle.decide(target, found, evidence, now=now)
    if not lifecycle.is_usable(decision):
        return driver.CredentialAssessment(decision, None)
    until = decision.until if isinstance(decision, lifecycle.Keep) else _renewal_time(leaf)
    valid = driver.ValidCredential(until, leaf.not_after, _describe(leaf), leaf.not_before, identifier)
    return driver.CredentialAssessment(decision, valid)


def _read_client_certificate(held: driver.SecretData, load_key: LoadKey) -> Certificate | lifecycle.Reason:
    if KEY not in held or CERTIFICATE not in held:
        return lifecycle.Reason.MISSING
    try:
        issued = IssuedCertificate(load_key(held[KEY]), split_bundle(held[CERTIFICATE]))
    except PkiError:
        return lifecycle.Reason.TAMPERED
    return lifecycle.Reason.TAMPERED if validate_client_certificate(issued) else issued.certificate


def read_held_certificate(held: driver.SecretData) -> driver.HeldCredential | None:
    """Return the content of the certificate in a Secret, None when there is none; raise `CredentialUnreadable`."""
    if CERTIFICATE not in held:
        return None
    try:
        leaf = parse_certificate(held[CERTIFICATE])
    except PkiError as cause:
        raise CredentialUnreadable(f"the certificate cannot be read: {cause}") from cause
    return driver.HeldCredential(
        leaf.common_name, CredentialValidity(leaf.not_before, leaf.not_after), leaf.key.thumbprint
    )


def read_api_server_certificate(held: driver.SecretData) -> driver.HeldCredential | None:
    """Return the content of a certificate for the API server; None when the Secret holds no such one."""
    return None if driver.ENDPOINT_CONFIG in held else read_held_certificate(held)


def read_endpoint_certificate(held: driver.SecretData) -> driver.HeldCredential | None:
    """Return the content of a certificate for an endpoint other than the API server; None without one."""
    return read_held_certificate(held) if driver.ENDPOINT_CONFIG in held else None


def read_pending_key(held: driver.SecretData) -> str:
    """Return the thumbprint of the key whose request is under way, empty when there is none that can be read."""
    try:
        return PrivateKey.from_pem(Sensitive(held[PENDING_KEY])).public.thumbprint
    except (KeyError, PkiError):
        return ""


def is_obsolete_join_request(
    wanted: driver.WantedCredential, held: driver.SecretData, request: Object, *, now: datetime
) -> bool:
    """Whether a member waits for a request that it made as a joining cluster, which the hub does not decide any more.

    With a certificate that is still good it can make another one as itself.
    """
    if not requests.is_pending(request) or assess_certificate(wanted, held, now=now).valid is None:
        return False
    return bool((request.get("spec") or {}).get("username") != wanted.subject.user)


def decide_request_outcome(
    spec: CertificateSpec,
    key: PrivateKey,
    request: Object,
    *,
    now: datetime,
    decided_for: timedelta = IMMEDIATELY,  # since this process knows it, by its own clock: the hub's may be behind
    new_key: driver.NewKey = PrivateKey.generate,
) -> driver.ObtainResult:
    """Return what the hub's decision so far means; some time after a refusal another key is used."""
    decision = requests.read_decision(request)
    if decision.verdict in (requests.DENIED, requests.FAILED):
        reason = "CSRDenied" if decision.verdict == requests.DENIED else "CSRFailed"
        message = f"the hub {decision.verdict.lower()} the request: {decision.message or decision.reason}"
        return _refused(reason, message, decided_for, new_key)
    if decision.verdict != requests.APPROVED:
        return awaiting_approval(request["metadata"]["name"], recheck=choose_recheck_interval(request, now=now))
    if not decision.certificate:
        return _decide_unissued(str((request.get("spec") or {}).get("signerName")), decided_for)
    answer = _read_certificate(spec, key, decision.certificate, now=now)
    if isinstance(answer, driver.NewCredential):
        return answer
    return _refused("CertificateMismatch", f"the certificate from the hub is not used: {answer}", decided_for, new_key)


def _refused(reason: str, message: str, waited: timedelta, new_key: driver.NewKey) -> driver.Pending:
    """Wait before another key is made: storing it triggers a reconcile, and a request made at once is refused again."""
    left = max(RETRY_AFTER_REFUSAL - waited, IMMEDIATELY)
    keep = {} if left else {PENDING_KEY: new_key().pem.reveal()}
    return driver.Pending(reason, message, recheck=left, failed=True, keep=keep)


def _read_certificate(
    spec: CertificateSpec, key: PrivateKey, encoded: str, *, now: datetime
) -> driver.NewCredential | str:
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
    return driver.NewCredential(
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


def _decide_unissued(signer: str, waited: timedelta) -> driver.Pending:
    if waited < ISSUANCE_TIMEOUT:
        message = f"the request is approved, and waits for signer {signer} to issue the certificate"
        return driver.Pending("AwaitingCertificate", message, recheck=RECHECK_INTERVAL)
    advice = (
        "this hub may not sign client certificates, so register with another driver"
        if signer == KUBE_CLIENT_SIGNER
        else f"does the controller of signer {signer} run?"
    )
    message = f"the request was approved but no certificate was issued: {advice}"
    return driver.Pending("CertificateNotIssued", message, recheck=RETRY_AFTER_REFUSAL, failed=True)


def _renewal_time(certificate: Certificate) -> datetime:
    return lifecycle.choose_renewal_time(certificate.not_before, certificate.not_after, seed=certificate.key.thumbprint)


def choose_recheck_interval(request: Object, *, now: datetime) -> timedelta:
    """Return when to look again at a request that waits: the longer it has waited, the later."""
    created = parse_rfc3339(str(request["metadata"].get("creationTimestamp") or ""))
    waited = now - created if created is not None else IMMEDIATELY
    return min(max(waited / 4, RECHECK_INTERVAL), LONGEST_RECHECK_INTERVAL)


def awaiting_approval(request: str, *, recheck: timedelta = RECHECK_INTERVAL) -> driver.Pending:
    return driver.Pending("AwaitingHubApproval", f"request {request} waits for approval on the hub", recheck=recheck)


def learn_certificates_by_use(
    evidence: TokenEvidence, certificates: Callable[[], Sequence[ClientCertificate]], connect: CredentialClientFactory
) -> Learn:
    """Return what shows another certificate to its server each time, and all that follow while one is refused."""
    turns, pause = count(), refusal_pause()

    async def learn(now: datetime) -> None:
        held, turn, refused, accepted = certificates(), next(turns), False, False
        for certificate in (held[(turn + number) % len(held)] for number in range(len(held))):
            try:
                leaf = parse_certificate(certificate.chain)
                if now >= leaf.not_after:
                    continue  # replaced whatever the server says
                async with connect(Credential(certificate=certificate)) as client:
                    await who_am_i(client)
            except (PkiError, ConfigError):
                continue  # what is damaged is replaced, too
            except (Unauthorized, ClientCertificateRefused):
                if now + (client.clock_skew or IMMEDIATELY) < leaf.not_before:
                    continue  # another one would begin even later
                refused = True
                if not pause.left(now):
                    evidence.observe_refused_certificate(certificate_id(leaf.der), leaf.not_after, now=now)
            except KubeError as error:
                log_unread(error)
                break
            else:
                accepted = True
                break
        pause.record(now, failed=refused, succeeded=accepted)

    return learn


MIN_LIFETIME = timedelta(hours=1)


def validate_lifetime(value: str) -> str:
    lifetime = parse_seconds(value)
    if lifetime is not None and MIN_LIFETIME <= lifetime <= LONGEST_CERTIFICATE_REQUEST:
        return ""
    longest = int(LONGEST_CERTIFICATE_REQUEST.total_seconds())
    advice = f"set {LIFETIME.flag} to 0, or to a number from 3600 to {longest}"
    return f"a certificate is valid for at least an hour: {advice}"


LIFETIME = driver.DriverOption(
    flag="--client-cert-expiration-seconds",
    help="The requested lifetime of the certificate; 0 leaves it to the hub.",
    side=driver.Side.CLUSTER,
    type=driver.OptionType.NUMBER,
    paths=(("clientCertExpirationSeconds",),),
    validate=validate_lifetime,
)


def certificate_lifetime(settings: driver.Settings) -> timedelta | None:
    """Return the lifetime to request, None to leave it to the hub."""
    value = LIFETIME.read(settings)
    return parse_seconds(value, longest=LONGEST_CERTIFICATE_REQUEST) if value else None


JOIN_REQUEST_GRACE = timedelta(minutes=1)
USER_ENTRY = UserEntry(certificate_file=Path(CERTIFICATE), key_file=Path(KEY))
REMEMBERED = 1024  # requests and certificates of all credentials
KEYS_IN_USE = 2  # that of the certificate, and that of a request; parsed once instead of in every reconcile


def remember(known: dict[str, datetime], key: str, at: datetime) -> None:
    """Store an instant; what was stored longest ago goes when there are too many."""
    known.pop(key, None)
    known[key] = at
    if len(known) > REMEMBERED:
        del known[next(iter(known))]


class CertificateAgentDriver(Struct, frozen=True):
    """Obtains and renews certificates, each in a Secret of its own.

    The key of a request is stored before the request is sent, and the request is named after the key: an agent that is
    killed continues with the same request instead of making another.
    """

    hub: Client
    reader: Reader
    clock: Clock
    new_key: driver.NewKey = PrivateKey.generate
    lifetime: timedelta | None = None  # requested; None leaves it to the hub
    endpoint_signer: str = ""  # signs for the endpoint in ENDPOINT_CONFIG; empty: the certificate is for the API server
    load_key: LoadKey = field(default_factory=lambda: lru_cache(KEYS_IN_USE)(PrivateKey.from_pem))
    first_seen: dict[str, datetime] = field(default_factory=dict)  # request and decision → when, by our clock
    obtained: dict[str, datetime] = field(default_factory=dict)  # the certificate's id → when, by our clock
    evidence: TokenEvidence = field(default_factory=TokenEvidence)  # which certificates the hub refuses

    @classmethod
    def make(cls, context: driver.AgentContext, *, endpoint_signer: str = "") -> CertificateAgentDriver:
        return cls(
            context.hub,
            context.reader,
            context.clock,
            context.new_key,
            certificate_lifetime(context.settings),
            endpoint_signer,
            evidence=context.evidence,
        )

    def user_entry(self) -> UserEntry:
        return USER_ENTRY

    def owned_keys(self) -> frozenset[str]:
        return frozenset({KEY, CERTIFICATE, PENDING_KEY})

    def assess(self, wanted: driver.WantedCredential, held: driver.SecretData) -> driver.ValidCredential | None:
        return self._assess(wanted, held, self.clock.now()).valid

    async def obtain(self, wanted: driver.WantedCredential, held: driver.SecretData) -> driver.ObtainResult:
        wanted = replace(wanted, signer=self.endpoint_signer or wanted.signer)
        now = self.clock.now()
        pending = held.get(PENDING_KEY)
        if pending is None:
            assessed = self._assess(wanted, held, now)
            is_kept = isinstance(assessed.decision, Keep)
            return assessed.valid if is_kept and assessed.valid is not None else self._new_key(wanted)
        try:
            key = self.load_key(pending)
        except PkiError:
            return self._new_key(wanted)  # damaged beyond use, and there is no other copy
        names = request_names(wanted, key)
        found = [self.reader.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name)) for name in names]
        request = choose_current_request(wanted, found)
        if request is None:
            return await self._create_request(wanted, key, names[0] if found[0] is None else names[-1])
        seen_for = self._seen_for(request, now)
        had_grace = seen_for >= JOIN_REQUEST_GRACE  # time to switch to its own certificate
        if had_grace and self._is_member(wanted) and is_obsolete_join_request(wanted, held, request, now=now):
            return self._new_key(wanted)
        spec = certificate_spec(wanted, key, self.lifetime)
        answer = decide_request_outcome(spec, key, request, now=now, decided_for=seen_for, new_key=self.new_key)
        if isinstance(answer, driver.NewCredential):
            remember(self.obtained, answer.credential_id, now)
        return answer

    def _assess(
        self, wanted: driver.WantedCredential, held: driver.SecretData, now: datetime
    ) -> driver.CredentialAssessment:
        """Judge a certificate only when it is for the server that this driver reaches: a cluster may change drivers."""
        is_for_endpoint = not wanted.addon and driver.ENDPOINT_CONFIG in held
        if is_for_endpoint != bool(self.endpoint_signer):
            return driver.CredentialAssessment(Obtain(Reason.PLACE_CHANGED), None)
        wanted = replace(wanted, refused=wanted.refused | self.evidence.refused_certificates.keys())
        return assess_certificate(
            wanted, held, now=now, lifetime=self.lifetime, load_key=self.load_key, obtained=self.obtained
        )

    def _is_member(self, wanted: driver.WantedCredential) -> bool:
        """Whether the hub accepts this cluster; not asked for add-ons, which exist only on accepted ones."""
        found = None if wanted.addon else self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(wanted.cluster))
        return found is not None and is_true(found, ConditionType.HUB_ACCEPTED)

    def _seen_for(self, request: Object, now: datetime) -> timedelta:
        """Return how long this process knows the present decision about a request, by its own clock."""
        seen = f"{request['metadata']['name']} {requests.read_decision(request).verdict}"
        since = min(self.first_seen.get(seen, now), now)
        remember(self.first_seen, seen, since)
        return now - since

    def _new_key(self, wanted: driver.WantedCredential) -> driver.Pending:
        keep = {PENDING_KEY: self.new_key().pem.reveal(), **driver.rotation_data(wanted)}
        return driver.Pending("KeyCreated", "a private key was generated", recheck=IMMEDIATELY, keep=keep)

    async def _create_request(self, wanted: driver.WantedCredential, key: PrivateKey, name: str) -> driver.Pending:
        with contextlib.suppress(AlreadyExists):  # sent before a restart: its event is on the way
            await self.hub.create(CERTIFICATE_SIGNING_REQUESTS, request_manifest(wanted, key, self.lifetime, name=name))
        return awaiting_approval(name)
