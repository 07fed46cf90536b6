"""The one place where a server is asked without proof of who it is: fetching cluster-info before a CA is known."""

from __future__ import annotations

from watchword.kube.client import Client
from watchword.kube.credentials import FixedCredential
from watchword.kube.endpoint import Endpoint, normalize_server_url
from watchword.kube.errors import ConfigError
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.retry import RetryPolicy

BODY_LIMIT = 1024 * 1024
"""A stranger may send cluster-info, not fill our memory."""


def unverified_client_for_discovery_only(server: str, *, retry: RetryPolicy | None = None) -> Client:
    """Return a client that believes any server and shows it nothing: no credential, proxy, cookie or redirect.

    Whatever it returns is hearsay until a signature or a pin has proved it.
    """
    address = normalize_server_url(server)
    if not address.startswith("https:"):
        raise ConfigError("discovery needs an https address")
    endpoint = Endpoint(address, insecure=True)
    return Client(HttpsTransport(endpoint, FixedCredential(), body_limit=BODY_LIMIT), retry=retry)
