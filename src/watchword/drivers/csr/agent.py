"""Obtains a client certificate: a key, one request for it, and patience until the hub has decided."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from watchword.api.bootstrap import USER_PREFIX
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.drivers.interface import (
    AgentContext,
    NewCredential,
    NewKey,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
    is_renewal_requested,
    rotation_data,
)
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.kube.kubeconfig import UserEntry
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.csr import build_csr
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader
from watchword.runtime.renewal import choose_renewal_time

KEY, CERTIFICATE, PENDING_KEY = "tls.key", "tls.crt", "pending.key"
USAGES = ["digital signature", "key encipherment", "client auth"]

IMMEDIATELY = timedelta(0)
RECHECK_INTERVAL = timedelta(minutes=2)  # a decision wakes us; this is for the one whose event was lost
RETRY_AFTER_REFUSAL = timedelta(minutes=2)  # less than people wait with `accept --wait`
ISSUANCE_TIMEOUT = timedelta(minutes=15)
JOIN_REQUEST_GRACE = timedelta(minutes=1)


@dataclass(frozen=True)
class CsrAgentDriver:
    """Keeps one certificate alive.

    The key of a request is stored before the request is sent, and the request is named after the key: whenever the
    agent is killed, it comes back to the same request instead of making another.
    """

    hub: Client
    reader: Reader
    clock: Clock
    new_key: NewKey = PrivateKey.generate
    first_seen: dict[str, datetime] = field(
        default_factory=dict
    )  # the request waited for → since when, by our own clock

    @classmethod
    def make(cls, context: AgentContext) -> CsrAgentDriver:
        """Return the driver, ready to use."""
        return cls(context.hub, context.reader, context.clock, context.new_key)

    def user_entry(self) -> UserEntry:
        """Return the kubeconfig's user, with certificate and key in files beside it."""
        return UserEntry(certificate_file=Path(CERTIFICATE), key_file=Path(KEY))

    def owned_keys(self) -> frozenset[str]:
        """Return the keys that go when another driver takes over."""
        return frozenset({KEY, CERTIFICATE, PENDING_KEY})

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        """Return until when the certificate held is good, without asking anybody."""
        return decide_certificate_validity(wanted, held, now=self.clock.now())

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        """Keep what is good, follow up what is asked, ask for what is missing."""
        now = self.clock.now()
        pending = held.get(PENDING_KEY)
        if pending is None:
            current = decide_certificate_validity(wanted, held, now=now)
            if current is None or now >= current.renew_at or is_renewal_requested(wanted, held):
                return self._new_key(wanted)
            return current
        try:
            key = PrivateKey.from_pem(Sensitive(pending))
        except PkiError:
            return self._new_key(wanted)  # damaged beyond use: nobody else holds it either
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
        return decide_request_outcome(wanted, key, request, now=now, new_key=self.new_key)

    def _is_member(self, wanted: WantedCredential) -> bool:
        """Whether the hub accepts this cluster; of add-ons nobody asks, for they live only on accepted ones."""
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
        with contextlib.suppress(AlreadyExists):  # asked before a restart: its event is on the way
            await self.hub.create(CERTIFICATE_SIGNING_REQUESTS, request_manifest(wanted, key, name=name))
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
    decided = [request for request in requests if (request.get("status") or {}).get("conditions")]
    own = [request for request in requests if not _is_superseded(wanted, request)]
    return next(iter(decided or own), None)


def _is_superseded(wanted: WantedCredential, request: Object) -> bool:
    asked = str((request.get("spec") or {}).get("username") or "")
    return bool(wanted.requester) and asked.startswith(USER_PREFIX) and asked != wanted.requester


def request_manifest(wanted: WantedCredential, key: PrivateKey, *, name: str = "") -> Object:
    """Return the request as the hub's approver expects it."""
    subject = CertificateSubject(wanted.subject.user, wanted.subject.groups)
    names = AlternativeNames(dns=(f"{wanted.addon}.addon.open-cluster-management.io",) if wanted.addon else ())
    labels = {Label.CLUSTER_NAME: wanted.cluster}
    if wanted.addon:
        labels[Label.ADDON_NAME] = wanted.addon
    spec: Object = {
        "signerName": wanted.signer,
        "usages": USAGES,
        "request": base64.b64encode(build_csr(key, subject, names)).decode(),
    }
    if wanted.lifetime is not None:
        spec["expirationSeconds"] = int(wanted.lifetime.total_seconds())
    where = ObjectKey.cluster(name or request_name(wanted, key))
    return CERTIFICATE_SIGNING_REQUESTS.manifest(where, metadata={"labels": labels}, spec=spec)


def decide_certificate_validity(wanted: WantedCredential, held: SecretData, *, now: datetime) -> ValidCredential | None:
    """Return until when what is held is good, or None when it is no good."""
    try:
        key = PrivateKey.from_pem(Sensitive(held[KEY]))
        certificate = parse_certificate(held[CERTIFICATE])
    except (KeyError, PkiError):
        return None
    if certificate.key != key.public or not _has_subject(certificate, wanted):
        return None
    if now >= certificate.not_after:
        return None
    return ValidCredential(_renewal_time(certificate), certificate.not_after, _describe(certificate))


def is_obsolete_join_request(wanted: WantedCredential, held: SecretData, request: Object, *, now: datetime) -> bool:
    """Whether a member waits for what it asked as a joining cluster, while it was denied: nobody decides about that.

    With a certificate that is still good it can ask again as itself.
    """
    if (request.get("status") or {}).get("conditions") or decide_certificate_validity(wanted, held, now=now) is None:
        return False
    return bool((request.get("spec") or {}).get("username") != wanted.subject.user)


def decide_request_outcome(
    wanted: WantedCredential, key: PrivateKey, request: Object, *, now: datetime, new_key: NewKey = PrivateKey.generate
) -> ObtainResult:
    """Return what the hub's decision so far means; some time after a refusal another key is asked about."""
    status: dict[str, Any] = request.get("status") or {}
    for verdict in ("Denied", "Failed"):
        said = find_condition(request, verdict)
        if said is not None and said.status == "True":
            message = f"the hub {verdict.lower()} the request: {said.message or said.reason}"
            return _refused(f"CSR{verdict}", message, _decided_at(request, verdict), now=now, new_key=new_key)
    if find_condition(request, "Approved") is None:
        return _awaiting_approval(recheck=RECHECK_INTERVAL)
    if not status.get("certificate"):
        return _decide_unissued(request, now=now)
    objection, answer = _read_certificate(wanted, key, base64.b64decode(status["certificate"]))
    if answer is not None:
        return answer
    return _refused("CertificateMismatch", objection, _decided_at(request, "Approved"), now=now, new_key=new_key)


def _refused(reason: str, message: str, since: datetime | None, *, now: datetime, new_key: NewKey) -> Pending:
    """Wait before another key is made: storing it wakes us, and who asks at once is answered the same."""
    left = RETRY_AFTER_REFUSAL - (now - since) if since is not None else IMMEDIATELY
    if left > IMMEDIATELY:
        return Pending(reason, message, recheck=left, failed=True)
    return Pending(reason, message, recheck=IMMEDIATELY, failed=True, keep=_as_pending(new_key()))


def _read_certificate(wanted: WantedCredential, key: PrivateKey, pem: bytes) -> tuple[str, NewCredential | None]:
    """Believe the certificate only when it is the one that was asked for; say why not."""
    try:
        certificate = parse_certificate(pem)
    except PkiError as cause:
        return f"the hub issued something that cannot be read: {cause}", None
    if certificate.key != key.public:
        return "the hub issued a certificate for another key", None
    if not _has_subject(certificate, wanted):
        return "the hub issued a certificate for another subject", None
    return "", NewCredential(
        data={KEY: key.pem.reveal(), CERTIFICATE: pem},
        issued_at=certificate.not_before,
        expires_at=certificate.not_after,
        renew_at=_renewal_time(certificate),
        message=_describe(certificate),
    )


def _describe(certificate: Certificate) -> str:
    life = f"valid from {rfc3339(certificate.not_before)} until {rfc3339(certificate.not_after)}"
    return f"client certificate {life}, to be renewed at {rfc3339(_renewal_time(certificate))}"


def _decide_unissued(request: Object, *, now: datetime) -> Pending:
    since = _decided_at(request, "Approved")
    if since is None or now - since < ISSUANCE_TIMEOUT:
        return _awaiting_approval(recheck=RECHECK_INTERVAL)
    message = (
        "the request was approved but no certificate was issued: this hub may not sign client certificates, "
        "so register with another driver"
    )
    return Pending("CertificateNotIssued", message, recheck=RETRY_AFTER_REFUSAL, failed=True)


def _decided_at(request: Object, verdict: str) -> datetime | None:
    rows = (request.get("status") or {}).get("conditions") or []
    row: Object = next((row for row in rows if row.get("type") == verdict), {})
    return parse_rfc3339(str(row.get("lastUpdateTime") or row.get("lastTransitionTime") or ""))


def _has_subject(certificate: Certificate, wanted: WantedCredential) -> bool:
    return certificate.common_name == wanted.subject.user and sorted(certificate.organisations) == sorted(
        wanted.subject.groups
    )


def _renewal_time(certificate: Certificate) -> datetime:
    return choose_renewal_time(certificate.not_before, certificate.not_after, seed=certificate.key.thumbprint)


def _as_pending(key: PrivateKey) -> dict[str, bytes]:
    return {PENDING_KEY: key.pem.reveal()}


def _awaiting_approval(recheck: timedelta) -> Pending:
    message = "waiting for the hub's administrator to approve the request"
    return Pending("AwaitingHubApproval", message, recheck=recheck)
