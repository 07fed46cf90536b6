"""From an address and a token, or from a document, to a cluster that is trusted for the right reason."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.validation import format_duration
from watchword.discovery import errors
from watchword.discovery.cluster_info import ClusterInfo, PublishedClusterInfo, fetch_cluster_info, read_cluster_info
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.connect import make_client
from watchword.kube.credentials import FixedCredential
from watchword.kube.endpoint import Endpoint, normalize_server_url
from watchword.kube.errors import ConfigError, Forbidden, KubeError, NotFound, Unauthorized, Unreachable, Untrusted
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.request_sender import RetryPolicy
from watchword.pki.certificates import Certificate, join_bundle
from watchword.pki.keys import Pin, is_pinned

T = TypeVar("T")
Progress: TypeAlias = Callable[[str], None]
"""Receives progress messages for people."""


def ignore_progress(_: str) -> None: ...


class PollOptions(Struct, frozen=True):
    """How long to wait altogether, and at most between two looks; the first pauses are shorter."""

    total: timedelta = timedelta(minutes=5)
    pause: timedelta = timedelta(seconds=5)
    first_pause: timedelta = timedelta(milliseconds=250)


class PollAgain(Exception):
    """Raised by an attempt that is to be repeated; `then` is raised when time is up."""

    def __init__(self, what: str, then: Exception) -> None:
        super().__init__(what)
        self.then = then


async def poll_until(look: Callable[[], Awaitable[T]], poll_options: PollOptions, progress: Progress) -> T:
    """Call `look` until it returns, with growing pauses; raise the reason of the last call when time is up."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + poll_options.total.total_seconds()
    pause = poll_options.first_pause.total_seconds() / 2
    said = ""
    while True:
        try:
            return await look()
        except PollAgain as reason:
            pause = min(pause * 2, poll_options.pause.total_seconds())
            if loop.time() + pause > ends:
                raise reason.then from reason
            if str(reason) != said:  # the same error is reported once
                said = str(reason)
                left = timedelta(seconds=int(ends - loop.time()))
                progress(f"{said}; trying again for up to {format_duration(left)}")
            await asyncio.sleep(pause)


ONE_TRY = RetryPolicy(attempts=1, attempt_timeout=10.0, deadline=10.0)
"""Discovery retries by itself, with progress messages."""


def unverified_client_for_discovery_only(server: str) -> Client:
    """Return a client that accepts any server and sends it no credential, proxy authentication, cookie or redirect.

    What it returns is untrusted until a signature or a pin has verified it.
    """
    address = normalize_server_url(server)
    if not address.startswith("https:"):
        raise ConfigError("discovery needs an https address")
    endpoint = Endpoint(address, insecure=True)
    return Client(HttpsTransport(endpoint, FixedCredential(), body_limit=MAX_DOCUMENT_BYTES), retry=ONE_TRY)


class ClientFactory(Protocol):
    """Makes clients of one server each; the caller closes them."""

    def unverified(self, server: str) -> Client:
        """Return a client that sends no credential and accepts any certificate."""
        ...

    def verified(self, server: str, ca: bytes) -> Client:
        """Return a client that trusts only servers of this authority (empty: the system's roots)."""
        ...


class HttpsClientFactory:
    """Dials over sockets."""

    def unverified(self, server: str) -> Client:
        return unverified_client_for_discovery_only(server)

    def verified(self, server: str, ca: bytes) -> Client:
        return make_client(Endpoint(server, ca), FixedCredential(), retry=ONE_TRY)


NOT_SHOWN = (NotFound, Forbidden, Unauthorized)


class BootstrapTokenDiscovery(Struct, frozen=True):
    """An address, a token and (unless explicitly waived) the pin of the cluster's CA.

    The token alone proves only that the other side knows it too, as every holder of the token does.
    """

    server: str
    token: BootstrapToken
    pins: tuple[Pin, ...] = ()
    unsafe_skip_ca_pin: bool = False


class ClusterDiscovery(Struct, frozen=True):
    """Finds a cluster and checks that it is the one; every failure is a `DiscoveryError`.

    `poll_options.total` bounds the whole discovery, also against a server that stalls within an answer.
    """

    client_factory: ClientFactory
    poll_options: PollOptions = field(default_factory=PollOptions)
    progress: Progress = ignore_progress

    async def by_token(self, method: BootstrapTokenDiscovery) -> ClusterInfo:
        """Read cluster-info without trust, check signature and pin, then read it again from a server of a pinned CA.

        Other holders of the token can sign a cluster-info that lists their own CA beside the pinned one. So only pinned
        CAs verify the second read, and other CAs count only because a server of a pinned CA publishes them.
        """
        if not method.pins and not method.unsafe_skip_ca_pin:
            raise errors.NotTrusted(
                errors.DiscoveryReason.PIN_REQUIRED,
                "a token alone does not prove which cluster answers, as others may hold it too: give the CA pin "
                "(--discovery-token-ca-cert-hash), or waive it with --discovery-token-unsafe-skip-ca-verification",
            )
        async with _time_limit(method.server, self.poll_options.total):
            self.progress(f"asking {method.server} for cluster-info, without credentials")
            published = await self._published(self.client_factory.unverified(method.server), method.token)
            info = validate_signed_cluster_info(published, method)
            trusted = select_pinned_authorities(info, method.pins) if method.pins else info.authorities
            self.progress(
                f"the signature of token {method.token.id} is right; asking again through the cluster's own CA"
            )
            proved = self.client_factory.verified(method.server, join_bundle(trusted))
            again = await self._published(proved, method.token)
        if again.text != published.text or not again.has_valid_signature_for(method.token):
            raise errors.NotTrusted(
                errors.DiscoveryReason.CHANGED_IN_BETWEEN,
                "cluster-info changed between two reads: try again; if it persists, a man in the middle is possible",
            )
        return info

    async def by_pin(self, server: str, pins: tuple[Pin, ...]) -> ClusterInfo:
        """Read cluster-info without trust, then read it again from a server of a pinned CA and return that.

        Without a signature an attacker on the network may have added its own CA beside the pinned one.
        """
        async with _time_limit(server, self.poll_options.total):
            self.progress(f"asking {server} for cluster-info, without credentials")
            published = await self._published(self.client_factory.unverified(server))
            pinned = select_pinned_authorities(read_cluster_info(published.text), pins)
            self.progress("the pin is right; asking again through the pinned CA")
            again = await self._published(self.client_factory.verified(server, join_bundle(pinned)))
        return read_cluster_info(again.text)

    async def _published(self, client: Client, token: BootstrapToken | None = None) -> PublishedClusterInfo:
        """Wait until the server shows cluster-info, with a signature of the token if there is one."""

        async def look() -> PublishedClusterInfo:
            try:
                published = await fetch_cluster_info(client)
            except NOT_SHOWN as error:
                raise _not_shown(error) from error
            except KubeError as error:
                raise _explain(error) from error
            if token is not None and not published.signatures.get(token.id):
                raise _not_signed(token)
            return published

        async with client:
            return await poll_until(look, self.poll_options, self.progress)

    async def by_document(self, text: bytes) -> ClusterInfo:
        """Trust a ClusterInfo that came by a trusted way; then prefer what the cluster itself now publishes.

        The certificate chain is verified for that; a cluster that publishes nothing changes nothing.
        """
        given = read_cluster_info(text, ca_required=False)
        self.progress(f"asking {given.server} for newer cluster-info")
        client = self.client_factory.verified(given.server, given.ca_bundle)

        async def look() -> PublishedClusterInfo | None:
            try:
                return await fetch_cluster_info(client)
            except NOT_SHOWN:
                return None
            except KubeError as error:
                raise _explain(error) from error

        async with _time_limit(given.server, self.poll_options.total), client:
            published = await poll_until(look, self.poll_options, self.progress)
        if published is None:
            return given
        try:
            return read_cluster_info(published.text)
        except errors.ClusterInfoRefused as refusal:
            self.progress(f"what the cluster publishes is not used: {refusal}")
            return given


def validate_signed_cluster_info(published: PublishedClusterInfo, method: BootstrapTokenDiscovery) -> ClusterInfo:
    """Return the received ClusterInfo if the token signed it; raise the reason otherwise."""
    if not published.has_valid_signature_for(method.token):
        raise errors.NotTrusted(
            errors.DiscoveryReason.SIGNATURE_WRONG,
            f"the signature of token {method.token.id} on cluster-info is wrong: the token has a typing error, or "
            "a man in the middle is possible; nothing secret was sent",
        )
    return read_cluster_info(published.text)


def select_pinned_authorities(info: ClusterInfo, pins: tuple[Pin, ...]) -> tuple[Certificate, ...]:
    """Return the authorities that the pins name; raise `NotTrusted` when there is none."""
    pinned = tuple(authority for authority in info.authorities if is_pinned((authority.key,), pins))
    if not pinned:
        raise errors.NotTrusted(
            errors.DiscoveryReason.PIN_MISMATCH,
            "none of the cluster's CAs is the pinned one: the CA was rotated (ask the hub for a new join command), or "
            "a holder of the token answers in place of the hub; nothing secret was sent",
        )
    return pinned


def _not_shown(error: KubeError) -> PollAgain:
    return PollAgain(
        "the server does not show cluster-info to us yet",
        errors.DiscoveryTimedOut(
            errors.DiscoveryReason.CLUSTER_INFO_MISSING,
            f"the server does not show cluster-info to anonymous readers: run `watchword init` on the hub ({error})",
        ),
    )


def _not_signed(token: BootstrapToken) -> PollAgain:
    return PollAgain(
        f"cluster-info is not signed for token {token.id} yet",
        errors.DiscoveryTimedOut(
            errors.DiscoveryReason.SIGNATURE_MISSING,
            f"cluster-info is not signed for token {token.id}: it has expired, was deleted or may not sign; "
            "`watchword token create` on the hub makes a new one",
        ),
    )


def _explain(error: KubeError) -> errors.DiscoveryError | PollAgain:
    if isinstance(error, Untrusted):
        return errors.NotTrusted(
            errors.DiscoveryReason.SERVER_NOT_TRUSTED,
            f"the server's certificate is not of a CA that was proved: {error}; the CA was rotated (ask the hub for a "
            "new join command), or another server answers in place of the hub",
        )
    reason = (
        errors.DiscoveryReason.SERVER_UNREACHABLE
        if isinstance(error, Unreachable)
        else errors.DiscoveryReason.CLUSTER_INFO_MISSING
    )
    return PollAgain(str(error), errors.DiscoveryTimedOut(reason, f"{error}; gave up waiting"))


@asynccontextmanager
async def _time_limit(server: str, total: timedelta) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(total.total_seconds() or None):  # zero: each request is sent once
            yield
    except TimeoutError as cause:
        raise errors.DiscoveryTimedOut(
            errors.DiscoveryReason.SERVER_UNREACHABLE,
            f"{server} did not answer completely within {format_duration(total)}: check the address and the network, "
            "or wait longer with --discovery-timeout",
        ) from cause
