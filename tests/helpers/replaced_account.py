"""A ServiceAccount created again while its token is requested, on a server that ignores UIDs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.kube.transport import Transport


class ReplacedAccountTransport(Struct, frozen=True):
    """Answers every token request with a token of another account, as Kubernetes before 1.34 would."""

    inner: Transport
    other: str  # a ServiceAccount in the same namespace

    async def send(self, request: Request) -> Response:
        """Send a request; a token request names the other account, and no UID."""
        account, _, subresource = request.path.rpartition("/")
        if request.method == "POST" and subresource == "token":
            body = {name: value for name, value in orjson.loads(request.body).items() if name != "metadata"}
            path = f"{account.rpartition('/')[0]}/{self.other}/token"
            request = replace(request, path=path, body=orjson.dumps(body))
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send a request whose response is read in chunks."""
        return self.inner.stream(request)

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()
