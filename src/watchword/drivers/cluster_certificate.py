"""How the certificate of a cluster's agent is reported, whichever signer issues it."""

from __future__ import annotations

from watchword.api.names import ConditionType
from watchword.drivers.descriptor import CredentialCondition, CredentialKind

CLUSTER_CERTIFICATE = CredentialKind(
    name="cluster certificate",
    conditions=(
        CredentialCondition(
            ConditionType.CERTIFICATE_ROTATED, "ClientCertificateUpdated", "ClientCertificateUpdateFailed"
        ),
    ),
    consequence="{cluster} loses touch with the hub: no work, no add-ons, Unknown after five minutes",
)
