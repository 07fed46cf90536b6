"""Signs approved requests to an add-on's own signer, with the authority in the add-on's Secret."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from watchword.addons.certificate_approval import find_request_facts, validate_addon_request
from watchword.addons.definition import DefinitionLookup
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from watchword.certificates.approval import is_approved
from watchword.certificates.errors import CertificateRequestRefused
from watchword.certificates.request_validation import read_signer_request
from watchword.certificates.signing import read_authority, sign_request, with_certificate
from watchword.drivers.catalog import Catalog
from watchword.kube.client import Client
from watchword.pki.errors import PkiError
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

RECHECK_INTERVAL = timedelta(minutes=5)  # an administrator has to repair a missing or damaged Secret


class AddonSigningReconciler(Struct, frozen=True):
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
            authority = read_authority(await self.client.find(SECRETS, signer.authority))
            asked = read_signer_request(csr, signer.name).asked
            certificate = sign_request(csr, asked, authority, longest=signer.lifetime, now=self.clock.now())
        except CertificateRequestRefused as objection:
            self.events.refusal(csr, "SigningRefused", str(objection))
            return Done()
        except PkiError as trouble:
            self.events.warning(csr, "SigningAuthorityUnusable", f"Secret {signer.authority}: {trouble}")
            return RetryAfter(RECHECK_INTERVAL)
        signed = with_certificate(csr, certificate)
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, signed, subresource="status")
        return Done()


def is_awaiting_signature(csr: Object) -> bool:
    """Whether a request of an add-on is approved and not signed."""
    done = (csr.get("status") or {}).get("certificate")
    return Label.ADDON_NAME in labels_of(csr) and is_approved(csr) and not done
