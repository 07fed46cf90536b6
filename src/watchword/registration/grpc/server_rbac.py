"""The rights of the gRPC server on the hub: what its services write, and nothing else."""

from __future__ import annotations

from watchword.api.names import CLUSTER_LEASE
from watchword.api.rbac import RbacRule
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

_READ = ("get", "list", "watch")

SERVER_RULES = (
    RbacRule(
        "registers clusters, and sends each its own",
        MANAGED_CLUSTERS.group,
        ("managedclusters",),
        (*_READ, "create", "update"),
    ),
    RbacRule("agents report their state", MANAGED_CLUSTERS.group, ("managedclusters/status",), ("update",)),
    RbacRule(
        "passes certificate requests on, and sends the certificates",
        CERTIFICATE_SIGNING_REQUESTS.group,
        ("certificatesigningrequests",),
        (*_READ, "create"),
    ),
    RbacRule("agents renew their leases", LEASES.group, ("leases",), (*_READ, "update"), (CLUSTER_LEASE,)),
    RbacRule("sends add-ons to their clusters", MANAGED_CLUSTER_ADDONS.group, ("managedclusteraddons",), _READ),
    RbacRule(
        "agents report on their add-ons", MANAGED_CLUSTER_ADDONS.group, ("managedclusteraddons/status",), ("update",)
    ),
    RbacRule(
        "sends works to their clusters, and maintains their finalizer",
        MANIFEST_WORKS.group,
        ("manifestworks",),
        (*_READ, "patch"),
    ),
    RbacRule("agents report on their works", MANIFEST_WORKS.group, ("manifestworks/status",), ("patch",)),
    RbacRule("agents record events", EVENTS.group, ("events",), ("create", "patch")),
    RbacRule("requests the tokens of add-ons", "", ("serviceaccounts/token",), ("create",)),
    RbacRule("authenticates clusters that join", TOKEN_REVIEWS.group, ("tokenreviews",), ("create",)),
    RbacRule("authorizes every event", SUBJECT_ACCESS_REVIEWS.group, ("subjectaccessreviews",), ("create",)),
)
"""It may neither accept clusters nor approve certificates, so the hub's admission policies hold for it, too."""
