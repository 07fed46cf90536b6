"""The gRPC server as the operator deploys it: names, rights, certificates."""

from watchword.api.meta import ObjectKey
from watchword.api.names import CLUSTER_LEASE, GRPC_SERVER_SERVICE_ACCOUNT, GRPC_SIGNER, HUB_NAMESPACE
from watchword.api.rbac import RbacRule
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.registration.driver import HubServer, PublishedCertificate

SIGNER_SECRET = ObjectKey(HUB_NAMESPACE, "signer-secret")
SERVING_SECRET = ObjectKey(HUB_NAMESPACE, "grpc-server-serving-cert")
CA_BUNDLE = ObjectKey(HUB_NAMESPACE, "ca-bundle-configmap")
BUNDLE_KEY = "ca-bundle.crt"
SERVING_KEY = "serving.crt"  # beside the bundle, for `status` and `forecast`: it is public


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


PORT = 8090
_CERTIFICATES, _AUTHORITIES = "/grpc/serving", "/grpc/client-ca"


SIGNER_RULES = (
    RbacRule(
        "approves and signs for its signer alone",
        CERTIFICATE_SIGNING_REQUESTS.group,
        ("signers",),
        ("approve", "sign"),
        (GRPC_SIGNER,),
    ),
    RbacRule(
        "writes the signed certificate",
        CERTIFICATE_SIGNING_REQUESTS.group,
        ("certificatesigningrequests/status",),
        ("update",),
    ),
)
"""What lets the hub's controllers approve and sign for the gRPC signer."""

_CREATES = "a right to create cannot name objects"
CONTROLLER_RULES = (
    RbacRule(_CREATES, SECRETS.group, ("secrets",), ("create",)),
    RbacRule(
        "maintains the authority",
        SECRETS.group,
        ("secrets",),
        ("get", "list", "watch", "update"),
        (SIGNER_SECRET.name,),
    ),
    RbacRule("renews the server's certificate", SECRETS.group, ("secrets",), ("get", "update"), (SERVING_SECRET.name,)),
    RbacRule(_CREATES, CONFIG_MAPS.group, ("configmaps",), ("create",)),
    RbacRule(
        "publishes the authorities, and measures when they end",
        CONFIG_MAPS.group,
        ("configmaps",),
        ("get", "list", "watch", "patch"),
        (CA_BUNDLE.name,),
    ),
)
"""What lets them maintain the authority and the server's certificate."""

SERVER = HubServer(
    name="grpc-server",
    service_account=GRPC_SERVER_SERVICE_ACCOUNT,
    port=PORT,
    arguments=(
        "grpc-server",
        f"--serve=$(POD_IP):{PORT}",
        f"--tls-cert-file={_CERTIFICATES}/tls.crt",
        f"--tls-key-file={_CERTIFICATES}/tls.key",
        f"--client-ca-file={_AUTHORITIES}/{BUNDLE_KEY}",
    ),
    rules=SERVER_RULES,
    signer_rules=SIGNER_RULES,
    controller_rules=CONTROLLER_RULES,
    secrets={SERVING_SECRET.name: _CERTIFICATES},
    config_maps={CA_BUNDLE.name: _AUTHORITIES},
    published=CA_BUNDLE,
    certificates=(
        PublishedCertificate(
            name="gRPC authority",
            field=BUNDLE_KEY,
            consequence="the certificates of clusters that registered over gRPC are no longer accepted",
            is_authority=True,
        ),
        PublishedCertificate(
            name="gRPC server certificate",
            field=SERVING_KEY,
            consequence="agents that reach the hub over gRPC no longer trust its server",
        ),
    ),
    exposure="grpc",
)
