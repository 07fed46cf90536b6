"""Signs approved requests to an add-on's own signer, with the authority in the add-on's Secret."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta

from watchword.addons.certificate_approval import find_request_facts, validate_addon_request
from watchword.addons.definition import DefinitionLookup, Signer
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from watchword.certificates.approval import is_approved
from watchword.certificates.errors import CertificateRequestRefused
from watchword.certificates.request_validation import read_signer_request
from watchword.drivers.catalog import Catalog
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pki.errors import PkiError
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

RECHECK_INTERVAL = timedelta(minutes=5)  # an administrator has to repair a missing or damaged Secret


@dataclass(frozen=True)
class AddonSigningReconciler:
    """Reconciles CertificateSigningRequest of add-ons. The key is read when it is needed, and not kept."""

    reader: Reader
    client: Client
    events: EventRecorder
    clock: Clock
    definitions: DefinitionLookup
    catalog: Catalog

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Sign an approved request after judging it once more: an approval by hand is not a subject."""
        csr = self.reader.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_awaiting_signature(csr):
            return Done()
        facts = find_request_facts(self.reader, self.definitions, csr)
        signer = facts.signer
        if signer is None or signer.authority is None:
            return Done()
        try:
            validate_addon_request(csr, facts, self.catalog)
            certificate = self._sign(csr, signer, await self._authority(signer.authority))
        except CertificateRequestRefused as objection:
            self.events.refusal(csr, "SigningRefused", str(objection))
            return Done()
        except PkiError as trouble:
            self.events.warning(csr, "SigningAuthorityUnusable", f"Secret {signer.authority}: {trouble}")
            return RetryAfter(RECHECK_INTERVAL)
        signed = {**csr, "status": {**csr["status"], "certificate": base64.b64encode(certificate).decode()}}
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, signed, subresource="status")
        return Done()

    def _sign(self, csr: Object, signer: Signer, authority: Authority) -> bytes:
        asked = read_signer_request(csr, signer.name).asked
        seconds = (csr.get("spec") or {}).get("expirationSeconds")
        life = min(timedelta(seconds=seconds), signer.lifetime) if seconds else signer.lifetime
        return authority.issue_client(asked.key, asked.subject, now=self.clock.now(), lifetime=life).pem

    async def _authority(self, key: ObjectKey) -> Authority:
        secret = await self.client.find(SECRETS, key)
        data = (secret or {}).get("data") or {}
        pem, private = (base64.b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key"))
        return Authority.from_pem(pem, private)


def is_awaiting_signature(csr: Object) -> bool:
    """Whether a request of an add-on is approved and not signed."""
    done = (csr.get("status") or {}).get("certificate")
    return Label.ADDON_NAME in labels_of(csr) and is_approved(csr) and not done
