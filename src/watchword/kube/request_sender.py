"""Sends a request with retries, a deadline and a limit on concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.kube.clock_skew import ClockSkewMeter
from watchword.kube.deadlines import Deadlines
from watchword.kube.errors import TimedOut, Unreachable
from watchword.kube.responses import refusal
from watchword.kube.retry import RetryPolicy, choose_retry_delay
from watchword.kube.transport import Transport

ERROR_LIMIT = 64 * 1024
"""How many bytes of a refused stream's response are read for the error message."""


class ServerCapabilities(Struct):
    """What is known about a server; shared by all users of one client."""

    supports_watch_list: bool = True  # until it refuses or ignores the request for its initial state


class RequestSender:
    """Sends requests over a transport with retries; watches do not count towards the concurrency limit."""

    def __init__(
        self, transport: Transport, policy: RetryPolicy, *, max_in_flight: int, random: Random, now: Callable[[], float]
    ) -> None:
        self.transport = transport
        self._policy = policy
        self._in_flight = asyncio.Semaphore(max_in_flight)
        self._deadlines = Deadlines()
        self._random = random
        self.skew = ClockSkewMeter(now)
        self.server = ServerCapabilities()

    def over(self, transport: Transport) -> RequestSender:
        """Return a sender for another transport that shares limits and metrics."""
        other = copy(self)
        other.transport = transport
        return other

    async def send(self, request: Request) -> Response:
        """Send, retry while that may help, and return the last response; `Unreachable` when there was none."""
        now = asyncio.get_running_loop().time
        give_up_at = now() + self._policy.deadline
        failures = 0
        while True:
            outcome = await self._attempt(request, give_up_at)
            if isinstance(outcome, Response) and outcome.status < 429:
                return outcome
            failures += 1
            wait = choose_retry_delay(self._policy, request, outcome, failures, self._random)
            if wait is None or now() + wait >= give_up_at:
                break
            await asyncio.sleep(wait)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Response]:
        """Send once; a successful response is read in chunks from `Response.stream`."""
        async with AsyncExitStack() as stack:
            try:
                async with self._deadlines.after(self._policy.attempt_timeout):
                    response = await stack.enter_async_context(self.transport.stream(request))
                    if not 200 <= response.status < 300:
                        raise refusal(await _read_body(response))
            except TimeoutError as cause:
                raise self._timed_out() from cause
            yield response

    async def _attempt(self, request: Request, give_up_at: float) -> Response | Unreachable:
        now = asyncio.get_running_loop().time
        sent_at = now()
        try:
            async with self._deadlines.at(min(sent_at + self._policy.attempt_timeout, give_up_at)), self._in_flight:
                response = await self.transport.send(request)
        except TimeoutError:
            return self._timed_out()
        except Unreachable as error:
            return error
        self.skew.observe(response, sent_at=sent_at, received_at=now())
        return response

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"no response within {self._policy.attempt_timeout:g} seconds: is the API server overloaded?")


async def _read_body(response: Response) -> Response:
    if response.stream is None:
        return response
    body = b""
    async for chunk in response.stream:
        body += chunk
        if len(body) > ERROR_LIMIT:
            break
    return replace(response, body=body, stream=None)
