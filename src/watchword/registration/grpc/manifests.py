"""The gRPC server as the operator deploys it."""

from __future__ import annotations

from watchword.api.names import GRPC_SERVER_SERVICE_ACCOUNT, GRPC_SIGNER
from watchword.api.rbac import RbacRule
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, SECRETS
from watchword.registration.grpc.server_objects import (
    BUNDLE_KEY,
    CA_BUNDLE,
    SERVING_KEY,
    SERVING_SECRET,
    SIGNER_SECRET,
)
from watchword.registration.grpc.server_rbac import SERVER_RULES
from watchword.registration.hub_server import HubServer, PublishedCertificate

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
