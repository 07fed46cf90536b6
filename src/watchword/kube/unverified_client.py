"""The only client that does not verify the server: it fetches cluster-info before the CA is known."""

from __future__ import annotations

from watchword.kube.client import Client
from watchword.kube.credentials import FixedCredential
from watchword.kube.endpoint import Endpoint, normalize_server_url
from watchword.kube.errors import ConfigError
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.retry import RetryPolicy

BODY_LIMIT = 1024 * 1024
"""An unverified server may send cluster-info, but not exhaust the memory."""


def unverified_client_for_discovery_only(server: str, *, retry: RetryPolicy | None = None) -> Client:
    """Return a client that accepts any server and sends it no credential, proxy authentication, cookie or redirect.

    What it returns is untrusted until a signature or a pin has verified it.
    """
    address = normalize_server_url(server)
    if not address.startswith("https:"):
        raise ConfigError("discovery needs an https address")
    endpoint = Endpoint(address, insecure=True)
    return Client(HttpsTransport(endpoint, FixedCredential(), body_limit=BODY_LIMIT), retry=retry)
