"""Finds out whether a hub issues client certificates at all: some clouds approve requests and never sign them."""

from __future__ import annotations

import contextlib
import secrets
from datetime import timedelta

from msgspec import Struct

from watchword.admin.errors import NotReady
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.credentials.certificates.approval import APPROVED, DENIED, FAILED, read_decision, with_decision
from watchword.credentials.certificates.request import CertificateSpec, certificate_request_manifest
from watchword.discovery.polling import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, KubeError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.runtime.clock import Clock

PATIENCE = timedelta(seconds=5)
PROBE_USER = "watchword:signer-probe"  # it has no rights, and its key is discarded
PROBE_LIFETIME = timedelta(minutes=10)  # the shortest that the API allows
CONSEQUENCE = "clusters cannot register by certificate here"


class SignerProbe(Struct, frozen=True):
    """Requests a certificate that is never used, approves it, and checks whether it is issued."""

    client: Client
    clock: Clock
    signer: str = KUBE_CLIENT_SIGNER
    patience: timedelta = PATIENCE
    progress: Progress = ignore_progress

    async def run(self) -> str:
        """Return why certificates cannot be had, empty when they can; the request is gone afterwards."""
        name = f"watchword-probe-{secrets.token_hex(5)}"
        self.progress(f"asking whether this hub issues client certificates ({name})")
        try:
            return await self._probe_signer(name)
        except ApiStatusError as refusal:
            return f"it could not be found out whether this hub issues client certificates: {refusal}"
        finally:
            with contextlib.suppress(KubeError):
                await self.client.delete(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))

    async def _probe_signer(self, name: str) -> str:
        posted = await self.client.create(CERTIFICATE_SIGNING_REQUESTS, probe_csr(name, self.signer))
        approval = with_decision(posted, APPROVED, "WatchwordProbe", "asked by watchword init", now=self.clock.now())
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")
        waiter = ObjectWaiter(self.client, self.patience)
        try:
            answered = await waiter.until(
                CERTIFICATE_SIGNING_REQUESTS,
                ObjectKey.cluster(name),
                lambda found: "" if found is not None and _is_decided(found) else "no certificate",
                advice="",
            )
        except NotReady:
            return (
                f"a request was approved, but no certificate came within {int(self.patience.total_seconds())} seconds: "
                f"this hub does not sign for {self.signer}, so {CONSEQUENCE}"
            )
        return validate_probe_result(answered)


def probe_csr(name: str, signer: str) -> Object:
    """Return a request for a certificate without rights, of a key that is discarded."""
    spec = CertificateSpec(CertificateSubject(PROBE_USER), signer, PROBE_LIFETIME, name)
    return certificate_request_manifest(spec, PrivateKey.generate())


def validate_probe_result(answered: Object) -> str:
    """Return what the response means: empty when a certificate was issued."""
    decision = read_decision(answered)
    if decision.certificate:
        return ""
    why = (decision.message or decision.reason) if decision.verdict == FAILED else "no reason was given"
    return f"this hub refuses to issue client certificates ({why}), so {CONSEQUENCE}"


def _is_decided(request: Object) -> bool:
    decision = read_decision(request)
    return bool(decision.certificate) or decision.verdict in (DENIED, FAILED)
