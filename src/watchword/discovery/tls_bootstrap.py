"""The first certificate: requested with a bootstrap token, waited for, and checked before it is used."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.validation import format_duration
from watchword.certificates.issued_certificate import IssuedCertificate, validate_issued_certificate
from watchword.discovery.errors import BootstrapFailed, BootstrapTimedOut, DiscoveryReason
from watchword.discovery.polling import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, ApiStatusError, Forbidden
from watchword.kube.watch import Bookmark, ObjectChange, list_and_watch
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.csr import build_csr, parse_csr
from watchword.pki.errors import PkiError
from watchword.pki.keys import KeyType, PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.pki.usages import Usage
from watchword.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class CertificateSpec:
    """Which certificate to request; `labels` help approvers to find the request."""

    subject: CertificateSubject
    signer: str = KUBE_CLIENT_SIGNER
    lifetime: timedelta | None = None  # None: as long as the signer likes
    name_prefix: str = "watchword-"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TlsBootstrap:
    """Turns a bootstrap identity into a certificate; raises `BootstrapFailed`.

    The request is named after its key and certificate_spec, so that trying again finds it instead of piling up more.
    """

    client: Client
    clock: Clock
    roots: tuple[Certificate, ...] = ()  # when given, the certificate must be of one of these
    patience: timedelta = timedelta(minutes=15)
    progress: Progress = ignore_progress

    async def obtain(self, certificate_spec: CertificateSpec, key: PrivateKey) -> IssuedCertificate:
        """Request, wait for approval and issuance, and return the checked certificate."""
        request = certificate_request_manifest(certificate_spec, key)
        posted = await self._create_request(request)
        name = ObjectKey.of(posted).name
        self.progress(f"waiting for approval of certificate request {name}")
        try:
            async with asyncio.timeout(self.patience.total_seconds()):
                answered = await self._wait_for_certificate(posted)
        except TimeoutError as cause:
            raise await self._timed_out(name) from cause
        return self._validate_certificate(answered, certificate_spec, key)

    async def _create_request(self, request: Object) -> Object:
        try:
            return await self.client.create(CERTIFICATE_SIGNING_REQUESTS, request)
        except AlreadyExists:
            present = await self.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(request))
            if not is_same_request(present, request):
                raise BootstrapFailed(
                    DiscoveryReason.REQUEST_REFUSED,
                    "a certificate request of this name has another requester: delete it on the hub and try again",
                ) from None
            return present
        except Forbidden as cause:
            raise BootstrapFailed(
                DiscoveryReason.REQUEST_REFUSED,
                f"the token may not request certificates: run `watchword init` on the hub, or use another ({cause})",
            ) from cause
        except ApiStatusError as cause:
            raise BootstrapFailed(
                DiscoveryReason.REQUEST_REFUSED, f"the certificate request was refused: {cause}"
            ) from cause

    async def _wait_for_certificate(self, posted: Object) -> Object:
        """Follow the one request until it is decided."""
        decided = decide_bootstrap_request(posted)
        if decided is not None:
            return decided
        key = ObjectKey.of(posted)
        facts = list_and_watch(self.client, CERTIFICATE_SIGNING_REQUESTS, fields=f"metadata.name={key.name}")
        async with aclosing(facts):
            async for fact in facts:
                if isinstance(fact, Bookmark):
                    continue
                deleted = isinstance(fact, ObjectChange) and fact.type == "DELETED"
                items = [fact.raw] if isinstance(fact, ObjectChange) else fact.items
                present = None if deleted or not items else orjson.loads(items[0])
                if present is None or uid_of(present) != uid_of(posted):
                    raise BootstrapFailed(
                        DiscoveryReason.REQUEST_GONE,
                        f"certificate request {key.name} was deleted on the hub: try again",
                    )
                decided = decide_bootstrap_request(present)
                if decided is not None:
                    return decided
        raise AssertionError("a followed collection never ends")

    async def _timed_out(self, name: str) -> BootstrapTimedOut:
        waited = format_duration(self.patience)
        present = await self.client.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))
        if present is not None and _condition(present, "Approved") is not None:
            return BootstrapTimedOut(
                DiscoveryReason.NOT_ISSUED,
                f"request {name} is approved but no certificate came within {waited}: this hub may not sign client "
                "certificates; `watchword doctor` tries it there",
            )
        return BootstrapTimedOut(
            DiscoveryReason.NOT_APPROVED,
            f"request {name} was not approved within {waited}: approve it on the hub (`kubectl certificate approve "
            f"{name}`) and run the command again",
        )

    def _validate_certificate(
        self, answered: Object, certificate_spec: CertificateSpec, key: PrivateKey
    ) -> IssuedCertificate:
        try:
            chain = split_bundle(base64.b64decode(answered["status"]["certificate"], validate=True))
        except (PkiError, ValueError, TypeError) as cause:
            raise BootstrapFailed(
                DiscoveryReason.CERTIFICATE_WRONG, f"the hub issued no readable certificate: {cause}"
            ) from cause
        issued = IssuedCertificate(key, chain)
        complaint = validate_issued_certificate(
            issued, certificate_spec.subject, roots=self.roots, lifetime=certificate_spec.lifetime, now=self.clock.now()
        )
        if complaint:
            raise BootstrapFailed(
                DiscoveryReason.CERTIFICATE_WRONG,
                f"the certificate from the hub is not used: {complaint}; ask its administrator",
            )
        return issued


def certificate_request_manifest(certificate_spec: CertificateSpec, key: PrivateKey) -> Object:
    """Return the CertificateSigningRequest; the same certificate_spec and key always give the same name."""
    usages = [Usage.DIGITAL_SIGNATURE, Usage.CLIENT_AUTH]
    if key.public.type == KeyType.RSA:
        usages.insert(1, Usage.KEY_ENCIPHERMENT)
    spec: Object = {
        "request": base64.b64encode(build_csr(key, certificate_spec.subject)).decode(),
        "signerName": certificate_spec.signer,
        "usages": [str(usage) for usage in usages],
    }
    if certificate_spec.lifetime is not None:
        spec["expirationSeconds"] = int(certificate_spec.lifetime.total_seconds())
    metadata = {"labels": dict(certificate_spec.labels), "annotations": dict(certificate_spec.annotations)}
    return CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster(choose_request_name(certificate_spec, key)),
        metadata={name: value for name, value in metadata.items() if value},
        spec=spec,
    )


def choose_request_name(certificate_spec: CertificateSpec, key: PrivateKey) -> str:
    """Name a request after everything that distinguishes it."""
    parts = [
        key.public.thumbprint,
        certificate_spec.signer,
        certificate_spec.subject.common_name,
        *sorted(certificate_spec.subject.organisations),
    ]
    parts.append(str(certificate_spec.lifetime))
    return certificate_spec.name_prefix + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def is_same_request(present: Object, ours: Object) -> bool:
    """Whether a stored request has the same content and key; the server sets the rest."""
    theirs, wanted = present.get("spec") or {}, ours["spec"]
    if any(theirs.get(field) != wanted.get(field) for field in ("signerName", "usages", "expirationSeconds")):
        return False
    try:
        asked = parse_csr(base64.b64decode(str(theirs.get("request") or ""), validate=True))
        mine = parse_csr(base64.b64decode(wanted["request"]))
    except (PkiError, ValueError):
        return False
    return (asked.key, asked.subject) == (mine.key, mine.subject)


def decide_bootstrap_request(present: Object) -> Object | None:
    """Return the request once its certificate is there, None while it waits; raise when it never will be."""
    for kind, reason in (("Denied", DiscoveryReason.REQUEST_DENIED), ("Failed", DiscoveryReason.REQUEST_FAILED)):
        condition = _condition(present, kind)
        if condition is not None:
            why = condition.get("message") or condition.get("reason") or "no reason given"
            raise BootstrapFailed(
                reason, f"the hub {'denied' if kind == 'Denied' else 'failed'} the certificate request: {why}"
            )
    approved = _condition(present, "Approved") is not None
    return present if approved and (present.get("status") or {}).get("certificate") else None


def _condition(present: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    rows = (present.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == kind and row.get("status", "True") == "True"), None)
