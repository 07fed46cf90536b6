"""Finds out whether a hub issues client certificates at all: some clouds approve requests and never sign them."""

from __future__ import annotations

import base64
import contextlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from watchword.admin.errors import NotReady
from watchword.admin.wait import ObjectWaiter
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.time import rfc3339
from watchword.discovery.polling import Progress, ignore_progress
from watchword.drivers.csr.hub import with_approval
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, KubeError
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.runtime.clock import Clock

PATIENCE = timedelta(seconds=5)
PROBE_USER = "watchword:signer-probe"  # it has no rights, and its key is discarded
PROBE_LIFETIME = timedelta(minutes=10)  # the shortest that the API allows
CONSEQUENCE = "clusters cannot register by certificate here"


@dataclass(frozen=True, slots=True)
class SignerProbe:
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
        approval = with_approval(posted, "WatchwordProbe", "asked by watchword init", now=rfc3339(self.clock.now()))
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
    spec = {
        "request": base64.b64encode(build_csr(PrivateKey.generate(), CertificateSubject(PROBE_USER))).decode(),
        "signerName": signer,
        "usages": ["digital signature", "client auth"],
        "expirationSeconds": int(PROBE_LIFETIME.total_seconds()),
    }
    return CERTIFICATE_SIGNING_REQUESTS.manifest(ObjectKey.cluster(name), spec=spec)


def validate_probe_result(answered: Object) -> str:
    """Return what the response means: empty when a certificate was issued."""
    if (answered.get("status") or {}).get("certificate"):
        return ""
    failed = find_condition(answered, "Failed")
    why = (failed.message or failed.reason) if failed else "no reason was given"
    return f"this hub refuses to issue client certificates ({why}), so {CONSEQUENCE}"


def _is_decided(request: Object) -> bool:
    kinds = {row.get("type") for row in conditions_of(request)}
    return bool((request.get("status") or {}).get("certificate")) or bool(kinds & {"Failed", "Denied"})
