"""The first certificate: requested with a bootstrap token, waited for, and checked before it is used."""

import asyncio
import contextlib
from contextlib import aclosing
from datetime import timedelta

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.validation import format_duration
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.issued_certificate import IssuedCertificate, validate_issued_certificate
from watchword.discovery.discover import Progress, ignore_progress
from watchword.discovery.errors import BootstrapFailed, BootstrapTimedOut, DiscoveryReason
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, ApiStatusError, Forbidden, KubeError
from watchword.kube.watch import watch_object
from watchword.pki.certificates import Certificate
from watchword.pki.errors import CertificateRefused
from watchword.pki.keys import PrivateKey
from watchword.runtime.clock import Clock

LAST_LOOK_SECONDS = 5.0
REFUSALS = {requests.DENIED: DiscoveryReason.REQUEST_DENIED, requests.FAILED: DiscoveryReason.REQUEST_FAILED}


class TlsBootstrap(Struct, frozen=True):
    """Turns a bootstrap identity into a certificate; raises `BootstrapFailed`.

    The request is named after its key and specification, so a retry finds it.
    """

    client: Client
    clock: Clock
    roots: tuple[Certificate, ...] = ()  # when given, the certificate must be of one of these
    patience: timedelta = timedelta(minutes=15)
    progress: Progress = ignore_progress

    async def obtain(self, certificate_spec: requests.CertificateSpec, key: PrivateKey) -> IssuedCertificate:
        """Ask, wait for approval and issuance, and return what stood every check; `patience` bounds all of it."""
        request = requests.certificate_request_manifest(certificate_spec, key)
        name = ObjectKey.of(request).name
        try:
            async with asyncio.timeout(self.patience.total_seconds()):
                posted = await self._create_request(request)
                self.progress(f"waiting for approval of certificate request {name}")
                answered = await self._wait_for_certificate(posted)
        except TimeoutError as cause:
            raise await self._timed_out(name) from cause
        return self._validate_certificate(answered, certificate_spec, key)

    async def _create_request(self, request: Object) -> Object:
        try:
            return await self.client.create(CERTIFICATE_SIGNING_REQUESTS, request)
        except AlreadyExists:
            present = await self.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(request))
            if not requests.is_same_request(present, request):
                raise BootstrapFailed(
                    DiscoveryReason.REQUEST_REFUSED,
                    "a certificate request of this name has another requester: delete it on the hub and try again",
                ) from None
            return present
        except Forbidden as cause:
            raise BootstrapFailed(
                DiscoveryReason.REQUEST_REFUSED,
                f"the token may not request this certificate: run `watchword init` on the hub (for machines with "
                f"`--approve-nodes`), or use another ({cause})",
            ) from cause
        except ApiStatusError as cause:
            raise BootstrapFailed(
                DiscoveryReason.REQUEST_REFUSED, f"the certificate request was refused: {cause}"
            ) from cause

    async def _wait_for_certificate(self, posted: Object) -> Object:
        decided = decide_bootstrap_request(posted)
        if decided is not None:
            return decided
        key = ObjectKey.of(posted)
        states = watch_object(self.client, CERTIFICATE_SIGNING_REQUESTS, key)
        async with aclosing(states):
            async for present in states:
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
        present = None
        with contextlib.suppress(KubeError, TimeoutError):  # the look only chooses between two messages
            async with asyncio.timeout(LAST_LOOK_SECONDS):
                present = await self.client.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))
        if present is not None and requests.is_approved(present):
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
        self, answered: Object, certificate_spec: requests.CertificateSpec, key: PrivateKey
    ) -> IssuedCertificate:
        try:
            issued = IssuedCertificate.from_status(key, requests.read_decision(answered).certificate)
        except CertificateRefused as cause:
            raise BootstrapFailed(
                DiscoveryReason.CERTIFICATE_WRONG, f"the hub issued no readable certificate: {cause}"
            ) from cause
        complaint = validate_issued_certificate(
            issued, certificate_spec.subject, roots=self.roots, lifetime=certificate_spec.lifetime, now=self.clock.now()
        )
        if complaint:
            raise BootstrapFailed(
                DiscoveryReason.CERTIFICATE_WRONG,
                f"the certificate from the hub is not used: {complaint}; ask its administrator",
            )
        return issued


def decide_bootstrap_request(present: Object) -> Object | None:
    """Return the request once its certificate is issued, None while it waits; raise when it never will be."""
    decision = requests.read_decision(present)
    if decision.verdict in REFUSALS:
        why = decision.message or decision.reason or "no reason given"
        raise BootstrapFailed(
            REFUSALS[decision.verdict], f"the hub {decision.verdict.lower()} the certificate request: {why}"
        )
    return present if decision.verdict == requests.APPROVED and decision.certificate else None
