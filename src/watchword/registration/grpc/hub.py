"""The hub's side of the grpc driver: approves and signs certificates, and maintains what the server shows."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.api.names import GRPC_SIGNER, HUB_NAMESPACE
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from watchword.pki.subjects import AlternativeNames
from watchword.registration.certificate_approval import CertificateApprovalReconciler, CertificateHubDriver
from watchword.registration.grpc.authority import AtStart, SignerAuthorityReconciler
from watchword.registration.grpc.hub_options import read_allow_list, server_hosts
from watchword.registration.grpc.server_objects import SIGNER_SECRET
from watchword.registration.grpc.signing import GrpcSigningReconciler, is_awaiting_signature
from watchword.registration.interface import HubContext
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import metadata_only
from watchword.runtime.reconcile import ControllerSpec

SERVICE = "cluster-manager-grpc-server"
"""The name of the server's Deployment and Service, as Open Cluster Management names them."""

OWN_SECRET = WatchScope(namespace=SIGNER_SECRET.namespace, fields=f"metadata.name={SIGNER_SECRET.name}")


class GrpcHubDriver(CertificateHubDriver, frozen=True):
    """Approves like the csr driver, and signs with an authority of its own.

    A certificate of a cluster that is not accepted opens nothing: the server asks for each request.
    """

    signing: GrpcSigningReconciler | None = None
    authority: SignerAuthorityReconciler | None = None

    def controllers(self) -> Iterable[ControllerSpec]:
        """Return approval, signing, and the maintenance of the authority."""
        yield from super().controllers()
        if self.signing is not None:
            yield ControllerSpec(
                name="grpc-signing",
                root=CERTIFICATE_SIGNING_REQUESTS,
                reconciler=self.signing,
                concerns=is_awaiting_signature,
                acts_on_deletion=False,
            )
        if self.authority is not None:
            yield ControllerSpec(
                name="grpc-authority",
                root=SECRETS,
                reconciler=self.authority,
                workers=1,
                trigger_source=AtStart(SIGNER_SECRET),
            )


def make_hub_driver(context: HubContext) -> GrpcHubDriver:
    """Return the driver, ready to use; of the signer's Secret the cache keeps the metadata alone."""
    context.cache.informer(SECRETS, OWN_SECRET, project=metadata_only)
    return GrpcHubDriver(
        CertificateApprovalReconciler(context, GRPC_SIGNER, read_allow_list(context)),
        "grpc-approval",
        GrpcSigningReconciler(context),
        SignerAuthorityReconciler(context, AlternativeNames.for_hosts(serving_names(server_hosts(context.settings)))),
    )


def serving_names(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the server's certificate: those that agents use, and those of its Service."""
    inside = (f"{SERVICE}.{HUB_NAMESPACE}.svc", f"{SERVICE}.{HUB_NAMESPACE}.svc.cluster.local")
    return tuple(dict.fromkeys((*hosts, *inside)))
