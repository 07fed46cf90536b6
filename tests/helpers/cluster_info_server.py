"""Clusters that publish cluster-info, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import orjson
from tests.helpers.memory_api import status_response

from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY, SIGNATURE_PREFIX
from watchword.api.http import Request, Response
from watchword.api.resources import CONFIG_MAPS
from watchword.discovery.cluster_info import ClusterInfo, read_pins, write_cluster_info
from watchword.discovery.discover import ONE_TRY
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable, Untrusted
from watchword.pki.authority import Authority
from watchword.pki.jwt import sign_detached


def signed_cluster_info(text: str, *tokens: BootstrapToken) -> dict[str, str]:
    """Return the data of a ConfigMap that these tokens have signed."""
    signatures = {
        SIGNATURE_PREFIX + token.id: sign_detached(text.encode(), key_id=token.id, secret=token.secret)
        for token in tokens
    }
    return {KUBECONFIG_KEY: text, **signatures}


@dataclass
class ClusterInfoServer:
    """One API server: its CA, its published cluster-info, and whether it is up."""

    authority: Authority
    data: dict[str, str] | None = None  # None: no cluster-info
    up: bool = True
    stalls: bool = False  # whether answers stop in the middle of their body
    requests: list[Request] = field(default_factory=list)

    def publish(self, info: ClusterInfo, *tokens: BootstrapToken) -> None:
        """Publish this ClusterInfo from now on."""
        self.data = signed_cluster_info(write_cluster_info(info), *tokens)

    async def handle(self, request: Request) -> Response:
        """Respond as kube-apiserver does to an anonymous client."""
        self.requests.append(request)
        if request.path != CONFIG_MAPS.path(CLUSTER_INFO) or self.data is None:
            return status_response(403, "Forbidden")
        body = {"kind": "ConfigMap", "metadata": {"name": CLUSTER_INFO.name}, "data": self.data}
        encoded = orjson.dumps(body)
        return Response(200, stream=_stalled(encoded)) if self.stalls else Response(200, body=encoded)


async def _stalled(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]
    await asyncio.Event().wait()


@dataclass
class FakeNetwork:
    """A `ClientFactory` whose servers are objects: they can go down, move, and change their certificates."""

    servers: dict[str, ClusterInfoServer] = field(default_factory=dict)

    def unverified(self, server: str) -> Client:
        """Return a client that trusts any server."""
        return Client.from_handler(lambda request: self._reach(server, None, request), retry=ONE_TRY)

    def verified(self, server: str, ca: bytes) -> Client:
        """Return a client that trusts the servers of these CAs."""
        return Client.from_handler(lambda request: self._reach(server, ca, request), retry=ONE_TRY)

    async def _reach(self, server: str, ca: bytes | None, request: Request) -> Response:
        publisher = self.servers.get(server)
        if publisher is None or not publisher.up:
            raise Unreachable(f"{server} cannot be reached: the connection was refused", maybe_processed=False)
        if ca is not None and publisher.authority.certificate.pin not in read_pins(ca):
            raise Untrusted(
                f"{server} cannot be reached: its certificate is of another authority", maybe_processed=False
            )
        return await publisher.handle(request)
