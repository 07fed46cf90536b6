"""From an address and a token, or from a document, to a cluster that is trusted for the right reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from watchword.discovery.client_factory import ClientFactory
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info
from watchword.discovery.errors import (
    ClusterInfoRefused,
    DiscoveryError,
    DiscoveryReason,
    DiscoveryTimedOut,
    NotTrusted,
)
from watchword.discovery.polling import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.discovery.published_cluster_info import PublishedClusterInfo, fetch_cluster_info
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable, Untrusted
from watchword.pki.pins import Pin, is_pinned


@dataclass(frozen=True, slots=True)
class BootstrapTokenDiscovery:
    """An address, a token and (unless explicitly waived) the pin of the cluster's CA.

    The token alone proves only that the other side knows it too, as every holder of the token does.
    """

    server: str
    token: BootstrapToken
    pins: tuple[Pin, ...] = ()
    unsafe_skip_ca_pin: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDiscovery:
    """Finds a cluster and checks that it is the one; every failure is a `DiscoveryError`."""

    client_factory: ClientFactory
    poll_options: PollOptions = field(default_factory=PollOptions)
    progress: Progress = ignore_progress

    async def by_token(self, method: BootstrapTokenDiscovery) -> ClusterInfo:
        """Read cluster-info unverified, verify it by signature and pin, then read it again over TLS of its CA."""
        if not method.pins and not method.unsafe_skip_ca_pin:
            raise NotTrusted(
                DiscoveryReason.PIN_REQUIRED,
                "a token alone does not prove which cluster answers, as others may hold it too: give the CA pin "
                "(--discovery-token-ca-cert-hash), or waive it with --discovery-token-unsafe-skip-ca-verification",
            )
        self.progress(f"asking {method.server} for cluster-info, without credentials")
        async with _closing(self.client_factory.unverified(method.server)) as client:
            heard = await self._signed(client, method)
        info = validate_signed_cluster_info(heard, method)
        self.progress(f"the signature of token {method.token.id} is right; asking again through the cluster's own CA")
        async with _closing(self.client_factory.verified(method.server, info.ca_bundle)) as client:
            again = await self._signed(client, method)
        if again.text != heard.text or not again.has_valid_signature_for(method.token):
            raise NotTrusted(
                DiscoveryReason.CHANGED_IN_BETWEEN,
                "cluster-info changed between two reads: try again; if it persists, a man in the middle is possible",
            )
        return info

    async def by_pin(self, server: str, pins: tuple[Pin, ...]) -> ClusterInfo:
        """Read cluster-info unverified, take only the pinned authorities from it, and read it again over their TLS.

        Without a signature a man in the middle may have added an authority of its own to the pinned one.
        """
        self.progress(f"asking {server} for cluster-info, without credentials")
        heard = await self._published(self.client_factory.unverified(server))
        info = read_cluster_info(heard.text)
        pinned = tuple(authority for authority in info.authorities if is_pinned((authority.key,), pins))
        if not pinned:
            raise _wrong_pin()
        self.progress("the pin is right; asking again through the pinned CA")
        again = await self._published(self.client_factory.verified(server, ClusterInfo((server,), pinned).ca_bundle))
        return read_cluster_info(again.text)

    async def _published(self, client: Client) -> PublishedClusterInfo:
        async def look() -> PublishedClusterInfo:
            published = await self._look(client, _required)
            assert published is not None, "required above"
            return published

        async with _closing(client):
            return await poll_until(look, self.poll_options, self.progress)

    async def by_document(self, text: bytes, *, refresh: bool = True) -> ClusterInfo:
        """Trust a ClusterInfo that came by a trusted way; then prefer what the cluster itself now publishes.

        The certificate chain is verified for that; a cluster that publishes nothing changes nothing.
        """
        given = read_cluster_info(text, ca_required=False)
        if not refresh:
            return given
        self.progress(f"asking {given.server} for newer cluster-info")
        async with _closing(self.client_factory.verified(given.server, given.ca_bundle)) as client:
            published = await poll_until(lambda: self._look(client, _optional), self.poll_options, self.progress)
        if published is None:
            return given
        try:
            return read_cluster_info(published.text)
        except ClusterInfoRefused as refusal:
            self.progress(f"what the cluster publishes is not used: {refusal}")
            return given

    async def _signed(self, client: Client, method: BootstrapTokenDiscovery) -> PublishedClusterInfo:
        async def look() -> PublishedClusterInfo:
            published = await self._look(client, _required)
            assert published is not None, "required above"
            if not published.has_signature_for(method.token):
                raise PollAgain(
                    f"cluster-info is not signed for token {method.token.id} yet",
                    DiscoveryTimedOut(
                        DiscoveryReason.SIGNATURE_MISSING,
                        f"cluster-info is not signed for token {method.token.id}: it has expired, was deleted or may "
                        "not sign; `watchword token create` on the hub makes a new one",
                    ),
                )
            return published

        return await poll_until(look, self.poll_options, self.progress)

    async def _look(
        self, client: Client, missing: Callable[[KubeError], PublishedClusterInfo | None]
    ) -> PublishedClusterInfo | None:
        try:
            return await fetch_cluster_info(client)
        except (NotFound, Forbidden, Unauthorized) as error:
            return missing(error)
        except KubeError as error:
            raise _trouble(error) from error


def validate_signed_cluster_info(heard: PublishedClusterInfo, method: BootstrapTokenDiscovery) -> ClusterInfo:
    """Return the received ClusterInfo if signature and pins verify it; raise the reason otherwise."""
    if not heard.has_valid_signature_for(method.token):
        raise NotTrusted(
            DiscoveryReason.SIGNATURE_WRONG,
            f"the signature of token {method.token.id} on cluster-info is wrong: the token has a typing error, or "
            "a man in the middle is possible; nothing secret was sent",
        )
    info = read_cluster_info(heard.text)
    if method.pins and not is_pinned((authority.key for authority in info.authorities), method.pins):
        raise _wrong_pin()
    return info


def _wrong_pin() -> NotTrusted:
    return NotTrusted(
        DiscoveryReason.PIN_MISMATCH,
        "none of the cluster's CAs is the pinned one: the CA was rotated (ask the hub for a new join command), or "
        "a man in the middle knows the token; nothing secret was sent",
    )


def _required(error: KubeError) -> PublishedClusterInfo | None:
    raise PollAgain(
        "the server does not show cluster-info to us yet",
        DiscoveryTimedOut(
            DiscoveryReason.CLUSTER_INFO_MISSING,
            f"the server does not show cluster-info to anonymous readers: run `watchword init` on the hub ({error})",
        ),
    ) from error


def _optional(_: KubeError) -> PublishedClusterInfo | None:
    return None


def _trouble(error: KubeError) -> DiscoveryError | PollAgain:
    if isinstance(error, Untrusted):
        return NotTrusted(
            DiscoveryReason.SERVER_NOT_TRUSTED,
            f"the server is not the one in its cluster-info: {error}; a man in the middle is possible",
        )
    reason = (
        DiscoveryReason.SERVER_UNREACHABLE if isinstance(error, Unreachable) else DiscoveryReason.CLUSTER_INFO_MISSING
    )
    return PollAgain(str(error), DiscoveryTimedOut(reason, f"{error}; gave up waiting"))


@asynccontextmanager
async def _closing(client: Client) -> AsyncIterator[Client]:
    try:
        yield client
    finally:
        await client.close()
