"""The hub's side of the csr driver: approves requests to the signer of the hub's API server."""

from __future__ import annotations

from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.registration.certificate_approval import CertificateApprovalReconciler, CertificateHubDriver
from watchword.registration.csr.options import read_allow_list
from watchword.registration.interface import HubContext


def make_hub_driver(context: HubContext) -> CertificateHubDriver:
    """Return the driver, ready to use."""
    return CertificateHubDriver(CertificateApprovalReconciler(context, KUBE_CLIENT_SIGNER, read_allow_list(context)))
