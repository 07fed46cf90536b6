"""Programs that run as pods of a cluster: started with their Deployment, with the identities that their pods have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.simulation.cluster import AddressedTransport, SimulatedCluster, as_certificate
from tests.simulation.held_credentials import read_endpoint
from tests.simulation.planes import HubPlane, SimulatedPlane, StoreReader

from watchword.addons.token.agent import TOKEN
from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.resources import DEPLOYMENTS, SECRETS, SERVICE_ACCOUNTS
from watchword.credentials.certificates.agent import CERTIFICATE
from watchword.credentials.credential_secret import decode_data
from watchword.kube.errors import KubeError, Unreachable
from watchword.kube.tokens import request_token
from watchword.kube.transport import Transport
from watchword.pki.errors import PkiError

LOOK_EVERY = 600.0  # seconds between two looks at a Deployment
TOKEN_SECONDS = 24 * 3600


async def run_pod(
    member: SimulatedCluster, deployment: ObjectKey, program: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run a program while its Deployment is on the cluster; it is started again when it ends."""
    while True:
        while member.stored.get(DEPLOYMENTS, deployment) is None:  # noqa: ASYNC110 - a store rings no bell
            await asyncio.sleep(LOOK_EVERY)
        uid = uid_of(member.stored.get(DEPLOYMENTS, deployment) or {})
        running = asyncio.create_task(program())
        try:
            while uid_of(member.stored.get(DEPLOYMENTS, deployment) or {}) == uid and not running.done():
                await asyncio.wait((running,), timeout=LOOK_EVERY)
        finally:
            running.cancel()
            await asyncio.wait((running,))
        if not running.cancelled() and (error := running.exception()) is not None:
            raise error


@dataclass
class _IdentityTransport:
    """Sends each request with the identity of that moment."""

    async def identified(self) -> Transport:
        """Return a transport with the identity of this moment; `Unreachable` when there is none."""
        raise NotImplementedError

    async def send(self, request: Request) -> Response:
        """Send one request."""
        return await (await self.identified()).send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Open a stream."""
        async with (await self.identified()).stream(request) as response:
            yield response

    async def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass
class CredentialTransport(_IdentityTransport):
    """Reaches the hub with the kubeconfig and credential in a Secret of the cluster, which is mounted into the pod."""

    hub: HubPlane
    member: SimulatedCluster
    secret: ObjectKey

    async def identified(self) -> Transport:
        """Return a transport with what the Secret holds."""
        data = decode_data(self.member.stored.get(SECRETS, self.secret))
        try:
            token = data.get(TOKEN, b"").decode()
            shown = self.hub.as_token(token) if token else as_certificate(self.hub, data.get(CERTIFICATE, b""))
            return AddressedTransport(self.hub, read_endpoint(data).server, shown)
        except PkiError as cause:
            raise Unreachable("there is no credential for the hub", maybe_processed=False) from cause


@dataclass
class PodTransport(_IdentityTransport):
    """Reaches the cluster as a ServiceAccount, with a token that the kubelet renews."""

    plane: SimulatedPlane
    stored: StoreReader
    account: ObjectKey
    _token: str = ""
    _renew_at: datetime | None = None
    _issued_for: tuple[object, str] | None = None

    async def identified(self) -> Transport:
        """Return a transport with a token that is good."""
        client, now = self.plane.administrator(), self.plane.clock.now()
        wanted = self.plane.token_keys, uid_of(self.stored.get(SERVICE_ACCOUNTS, self.account) or {})
        if self._renew_at is None or now >= self._renew_at or self._issued_for != wanted:
            try:
                issued = await request_token(client, self.account, expiration_seconds=TOKEN_SECONDS)
            except KubeError as cause:
                raise Unreachable(f"the pod has no token: {cause}", maybe_processed=False) from cause
            self._token, self._issued_for = issued.token.reveal(), wanted
            self._renew_at = now + 0.8 * (issued.expires_at - now)
        return self.plane.as_token(self._token)
