"""How discovery reaches a server: first unverified, then verified by the authority in cluster-info."""

from typing import Protocol

from msgspec import Struct

from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.connect import make_client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint, normalize_server_url
from watchword.kube.errors import ConfigError
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.request_sender import RetryPolicy


def unverified_client_for_discovery_only(server: str, *, retry: RetryPolicy | None = None) -> Client:
    """Return a client that accepts any server and sends it no credential, proxy authentication, cookie or redirect.

    What it returns is untrusted until a signature or a pin has verified it.
    """
    address = normalize_server_url(server)
    if not address.startswith("https:"):
        raise ConfigError("discovery needs an https address")
    endpoint = Endpoint(address, insecure=True)
    return Client(HttpsTransport(endpoint, FixedCredential(), body_limit=MAX_DOCUMENT_BYTES), retry=retry)


ONE_TRY = RetryPolicy(attempts=1, attempt_timeout=10.0, deadline=10.0)
"""Discovery retries by itself, with progress messages."""


class ClientFactory(Protocol):
    """Makes clients of one server each; the caller closes them."""

    def unverified(self, server: str) -> Client:
        """Return a client that sends no credential and accepts any certificate."""
        ...

    def verified(self, server: str, ca: bytes, *, bearer: Sensitive[str] | None = None) -> Client:
        """Return a client that trusts only servers of this authority (empty: the system's roots)."""
        ...


class HttpsClientFactory(Struct, frozen=True):
    """Dials over sockets."""

    retry: RetryPolicy = ONE_TRY

    def unverified(self, server: str) -> Client:
        return unverified_client_for_discovery_only(server, retry=self.retry)

    def verified(self, server: str, ca: bytes, *, bearer: Sensitive[str] | None = None) -> Client:
        authorization = None if bearer is None else Sensitive(f"Bearer {bearer.reveal()}")
        credentials = FixedCredential(Credential(authorization))
        # With a bearer the client is kept and used for more than one look, so it may retry on its own.
        retry = self.retry if bearer is None else None
        return make_client(Endpoint(server, ca), credentials, retry=retry)
