"""The objects with the certificates of the gRPC server and of its signer."""

from __future__ import annotations

from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_NAMESPACE

SIGNER_SECRET = ObjectKey(HUB_NAMESPACE, "signer-secret")
SERVING_SECRET = ObjectKey(HUB_NAMESPACE, "grpc-server-serving-cert")
CA_BUNDLE = ObjectKey(HUB_NAMESPACE, "ca-bundle-configmap")
BUNDLE_KEY = "ca-bundle.crt"
SERVING_KEY = "serving.crt"  # beside the bundle, for `status` and `forecast`: it is public
