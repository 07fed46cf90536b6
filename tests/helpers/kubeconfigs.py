"""Kubeconfigs with any user, as other programs write them."""

import base64

from watchword.api.meta import Object


def kubeconfig(server: str, ca_pem: bytes, credential: Object) -> Object:
    """Return a kubeconfig with one cluster, one user and one context."""
    authority = base64.b64encode(ca_pem).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": credential}],
    }
