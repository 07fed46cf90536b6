"""Measures how long clusters go on to accept the token of a deleted account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from watchword.accounts.tokens import AccountToken
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential, bearer
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import KubeError, Unauthorized
from watchword.kube.https_transport import HttpsTransport

ASK_EVERY = 0.25  # seconds


class Refusal(Struct, frozen=True):
    """What one cluster said of the token: after how many seconds it refused, or why that was not measured."""

    cluster: str
    seconds: float = 0.0
    trouble: str = ""


def connect_with(token: AccountToken) -> Client:
    """Return a client of the token's cluster that shows this token and no other."""
    credential = Credential(authorization=bearer(token.token.reveal().encode()))
    return Client(HttpsTransport(Endpoint(token.server, token.ca), FixedCredential(credential)))


class RevocationProbe(Struct, frozen=True):
    """Shows the tokens of an account to their clusters until these refuse them."""

    tokens: Sequence[AccountToken]
    connect: Callable[[AccountToken], Client] = field(default=connect_with)

    async def run(self) -> list[Refusal]:
        """Ask every cluster from now on; start it together with the deletion."""
        return list(await asyncio.gather(*(self._ask(token) for token in self.tokens)))

    async def _ask(self, token: AccountToken) -> Refusal:
        began = asyncio.get_running_loop().time()
        client = self.connect(token)
        try:
            while True:
                await who_am_i(client)
                await asyncio.sleep(ASK_EVERY)
        except Unauthorized:
            return Refusal(token.cluster, asyncio.get_running_loop().time() - began)
        except KubeError as trouble:
            return Refusal(token.cluster, trouble=str(trouble))
        finally:
            await client.close()
