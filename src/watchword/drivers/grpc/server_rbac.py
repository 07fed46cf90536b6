"""The rights of the gRPC server on the hub: what its services write, and nothing else."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.api.names import CLUSTER_LEASE
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)

_READ = ["get", "list", "watch"]

SERVER_RULES: list[Object] = [
    {"apiGroups": [group], "resources": resources, "verbs": verbs, **({"resourceNames": names} if names else {})}
    for group, resources, verbs, names in (
        (MANAGED_CLUSTERS.group, ["managedclusters"], [*_READ, "create", "update"], []),
        (MANAGED_CLUSTERS.group, ["managedclusters/status"], ["update"], []),
        (CERTIFICATE_SIGNING_REQUESTS.group, ["certificatesigningrequests"], [*_READ, "create"], []),
        (LEASES.group, ["leases"], [*_READ, "update"], [CLUSTER_LEASE]),
        (MANAGED_CLUSTER_ADDONS.group, ["managedclusteraddons"], _READ, []),
        (MANAGED_CLUSTER_ADDONS.group, ["managedclusteraddons/status"], ["update"], []),
        (MANIFEST_WORKS.group, ["manifestworks"], [*_READ, "patch"], []),
        (MANIFEST_WORKS.group, ["manifestworks/status"], ["patch"], []),
        (EVENTS.group, ["events"], ["create", "patch"], []),
        ("", ["serviceaccounts/token"], ["create"], []),
        (TOKEN_REVIEWS.group, ["tokenreviews"], ["create"], []),
        (SUBJECT_ACCESS_REVIEWS.group, ["subjectaccessreviews"], ["create"], []),
    )
]
"""It may neither accept clusters nor approve certificates, so the hub's admission policies hold for it, too."""
