"""Signs approved requests of clusters to the signer of the gRPC server."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import GRPC_SIGNER, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from watchword.credentials.certificates.approval import is_approved
from watchword.credentials.certificates.issued_certificate import (
    parsed_request,
    read_authority,
    sign_request,
    with_certificate,
)
from watchword.credentials.certificates.request import CertificateRequestRefused
from watchword.credentials.certificates.request_validation import read_cluster_request
from watchword.pki.errors import PkiError
from watchword.registration.grpc.hub_options import LONGEST_LIFETIME
from watchword.registration.grpc.server_objects import SIGNER_SECRET
from watchword.registration.interface import HubContext
from watchword.runtime.reconcile import Done, Outcome, RetryAfter

RECHECK_INTERVAL = timedelta(seconds=10)  # the authority is created when the hub starts


class GrpcSigningReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest. The authority is read for each, so that a replaced one signs at once."""

    context: HubContext

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Sign an approved request after judging it once more: an approval by hand is not a subject."""
        csr = self.context.cache.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_awaiting_signature(csr):
            return Done()
        try:
            read_cluster_request(csr)
            authority = read_authority(await self.context.client.find(SECRETS, SIGNER_SECRET))
            asked = parsed_request(csr)
            certificate = sign_request(csr, asked, authority, longest=LONGEST_LIFETIME, now=self.context.clock.now())
        except CertificateRequestRefused as objection:
            self.context.events.refusal(csr, "SigningRefused", str(objection))
            return Done()
        except PkiError as trouble:
            self.context.events.warning(csr, "SigningAuthorityUnusable", f"Secret {SIGNER_SECRET}: {trouble}")
            return RetryAfter(RECHECK_INTERVAL)
        signed = with_certificate(csr, certificate)
        await self.context.client.update(CERTIFICATE_SIGNING_REQUESTS, signed, subresource="status")
        return Done()


def is_awaiting_signature(csr: Object) -> bool:
    """Whether a request of a cluster to this signer is approved and not signed."""
    done = (csr.get("status") or {}).get("certificate")
    own = (csr.get("spec") or {}).get("signerName") == GRPC_SIGNER and Label.ADDON_NAME not in labels_of(csr)
    return own and is_approved(csr) and not done
