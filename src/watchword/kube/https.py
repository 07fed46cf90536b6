"""The transport over sockets: HTTPS with the credential of the moment on every request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from watchword.api.http import Request, Response
from watchword.kube.answer_reader import AnswerReader, NotHttp
from watchword.kube.credentials import Credential, CredentialSource
from watchword.kube.dial import Dialer, NotConnected
from watchword.kube.endpoint import CurrentTls, Endpoint, is_loopback
from watchword.kube.errors import ConfigError, KubeError, MalformedAnswer
from watchword.kube.failures import explain
from watchword.kube.line import AnswerCut, Line, LineLost
from watchword.kube.lines import Lines
from watchword.kube.questions import Questions
from watchword.kube.tls import ContextCache

BODY_LIMIT = 512 * 1024 * 1024
_TROUBLE = (NotConnected, LineLost, AnswerCut, NotHttp)


class HttpsTransport:
    """Speaks HTTP/1.1 to one endpoint; connections are shared, contexts follow the rotating credential."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: CredentialSource,
        *,
        contexts: ContextCache | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._tls = CurrentTls(endpoint, contexts or ContextCache())
        self._body_limit = body_limit
        self._lines = Lines(Dialer(endpoint))
        self._questions = Questions(endpoint)
        self._may_identify = endpoint.encrypted or is_loopback(endpoint.server)

    async def send(self, request: Request) -> Response:
        """Send one request; after a 401 once more, when the credential can be renewed."""
        credential = await self._credentials.current()
        response = await self._exchange(request, credential)
        if response.status == 401:
            other = await self._credentials.renewed(credential)
            if other is not None:
                return await self._exchange(request, other)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; chunks arrive as the socket delivers them."""
        credential = await self._credentials.current()
        line, answer = await self._begin(request, credential)
        try:
            if answer.status == 401:
                other = await self._credentials.renewed(credential)
                if other is not None:
                    self._lines.give_back(line)
                    line, answer = await self._begin(request, other)
            yield Response(answer.status, tuple(answer.headers), stream=self._chunks(line))
        finally:
            self._lines.give_back(line)

    async def close(self) -> None:
        """Close every connection."""
        self._lines.close()

    async def _exchange(self, request: Request, credential: Credential) -> Response:
        line, answer = await self._begin(request, credential)
        try:
            body = await self._body(line)
        finally:
            self._lines.give_back(line)
        return Response(answer.status, tuple(answer.headers), body)

    async def _begin(self, request: Request, credential: Credential) -> tuple[Line, AnswerReader]:
        question = self._questions.write(request, credential)
        context = self._context(credential)
        try:
            line = await self._lines.take(context)
            try:
                return line, await line.ask(question)
            except BaseException:
                self._lines.give_back(line)
                raise
        except _TROUBLE as cause:
            raise self._explained(cause) from cause

    def _context(self, credential: Credential) -> ssl.SSLContext | None:
        if not self._may_identify and credential != Credential():
            raise ConfigError("a credential is not sent over plain http to another machine: use https")
        return self._tls.context(credential.certificate) if self._endpoint.encrypted else None

    async def _body(self, line: Line) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in self._chunks(line):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._body_limit:
                raise MalformedAnswer(f"{self._endpoint.server} sent more than {self._body_limit} bytes in one answer")
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _chunks(self, line: Line) -> AsyncIterator[bytes]:
        try:
            while chunk := await line.chunk():
                yield chunk
        except _TROUBLE as cause:
            raise self._explained(cause) from cause

    def _explained(self, cause: Exception) -> KubeError:
        return explain(cause, self._endpoint.server, with_certificate=self._tls.shows_certificate)
