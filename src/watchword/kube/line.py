"""One connection to a server: a question goes out, its answer comes in, no faster than it is read."""

from __future__ import annotations

import asyncio
from typing import cast

from watchword.kube.answer_reader import AnswerReader, NotHttp

READ_AHEAD = 256 * 1024


class LineLost(Exception):
    """The connection ended before the answer began; the cause, if any is known, is its `__cause__`."""


class AnswerCut(Exception):
    """The connection ended in the middle of the answer."""


class Line(asyncio.Protocol):
    """Carries one exchange at a time; whoever asks reads the answer to its end or aborts the line."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: AnswerReader | None = None
        self._trouble: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self.is_open = False

    async def ask(self, question: bytes) -> AnswerReader:
        """Send a question and return its answer as soon as the head is there; the body follows by `chunk`."""
        if not self.is_open:
            raise LineLost from self._trouble
        self._answer = AnswerReader(has_body=not question.startswith(b"HEAD "))
        self.transport.write(question)
        while not self._answer.has_head:
            self._raise_trouble(LineLost)
            await self._news()
        return self._answer

    async def chunk(self) -> bytes:
        """Return the next piece of the answer's body, empty at its end."""
        answer = self._answer
        assert answer is not None, "there is no answer before a question"
        while not answer.held:
            if answer.is_complete:
                return b""
            self._raise_trouble(AnswerCut)
            await self._news()
        if self._paused and self.is_open:
            self._paused = False
            self.transport.resume_reading()
        return answer.take()

    @property
    def is_reusable(self) -> bool:
        """Whether another question may be asked."""
        answer = self._answer
        return self.is_open and (answer is None or (answer.is_complete and answer.keeps_alive and not answer.held))

    def abort(self) -> None:
        """Drop the connection at once: a polite farewell over TLS may outlast a command's event loop."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def transport(self) -> asyncio.Transport:
        """What carries the bytes."""
        assert self._transport is not None, "the line is not connected"
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called again when TLS is put over the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take what arrived."""
        answer = self._answer
        try:
            if answer is None:
                raise NotHttp("the server spoke first")
            answer.feed(data)
        except NotHttp as trouble:
            self._end(trouble)
            self.abort()
            return
        if answer.held > READ_AHEAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Let the connection end when the server has."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Be of no more use."""
        self._end(exc)

    def _end(self, trouble: BaseException | None) -> None:
        self.is_open = False
        if self._trouble is None:
            self._trouble = trouble
        if self._answer is not None:
            self._answer.end()
        self._wake()

    def _raise_trouble(self, otherwise: type[Exception]) -> None:
        if isinstance(self._trouble, NotHttp):
            raise self._trouble
        if not self.is_open:
            raise otherwise from self._trouble

    async def _news(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
