"""Sends a request with retries, a deadline and a limit on concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.api.json import limit_depth
from watchword.api.meta import Object
from watchword.api.time import parse_http_date
from watchword.kube import errors
from watchword.kube.backoff import Backoff, Throttle, retry_after
from watchword.kube.transport import Transport

MEASURE_EVERY = 30.0
_HALF_A_SECOND = 0.5  # Date has a resolution of one second


class ClockSkewMeter:
    """Measures from time to time; `skew` is the server's clock minus ours, accurate to about a second."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._next = float("-inf")
        self.skew: timedelta | None = None

    def observe(self, response: Response, *, sent_at: float, received_at: float) -> None:
        """Take a response into account; the instants are the loop's and tell how long the request took."""
        if received_at < self._next:
            return
        date = parse_http_date(response.header("Date"))
        if date is None:
            return
        self._next = received_at + MEASURE_EVERY
        half_way = self._now() - (received_at - sent_at) / 2
        self.skew = timedelta(seconds=date.timestamp() + _HALF_A_SECOND - half_way)


_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_APPLY_TYPE = "application/apply-patch+yaml"


class RetryPolicy(Struct, frozen=True):
    """Limits of a client: attempts per call, seconds per attempt and seconds for the whole call."""

    attempts: int = 5
    attempt_timeout: float = 30.0
    deadline: float = 60.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, limit=5.0))


NO_RETRY = RetryPolicy(attempts=1)
"""The policy of a caller that retries by itself."""


def is_idempotent(request: Request) -> bool:
    return request.method in _SAFE_METHODS or request.header("Content-Type") == _APPLY_TYPE


def is_retryable(request: Request, outcome: Response | errors.Unreachable) -> bool:
    """Whether another attempt may succeed without the risk of doing the work twice."""
    if isinstance(outcome, errors.Unreachable):
        return not isinstance(outcome, errors.Untrusted) and (is_idempotent(request) or not outcome.maybe_processed)
    if outcome.status == 429 or (outcome.status == 503 and retry_after(outcome) is not None):
        return True  # the server rejected the request before processing it
    return outcome.status in _TRANSIENT_STATUSES and is_idempotent(request)


def choose_retry_delay(
    policy: RetryPolicy, request: Request, outcome: Response | errors.Unreachable, failures: int, random: Random
) -> float | None:
    """Return the seconds to wait before the next attempt; None when there should be none."""
    if failures >= policy.attempts or not is_retryable(request, outcome):
        return None
    pause = policy.backoff.delay(failures, random)
    asked = retry_after(outcome) if isinstance(outcome, Response) else None
    return pause if asked is None else asked + pause


def decode(response: Response) -> Object:
    """Return the object in a response, or raise the error that it describes."""
    if not 200 <= response.status < 300:
        raise refusal(response)
    parsed = _parse(response.body)
    if isinstance(parsed, dict):
        return parsed
    raise errors.MalformedResponse(
        f"{_describe_body(response)}: is this address a Kubernetes API server, or a proxy in front of it?"
    )


def refusal(response: Response) -> errors.ApiStatusError | errors.MalformedResponse:
    if response.status < 400:
        return errors.MalformedResponse(
            f"the server answered {response.status}, a redirect that is not followed: use the API server's own address"
        )
    parsed = _parse(response.body)
    if not isinstance(parsed, dict):
        parsed = {"message": f"the server answered {response.status} without a Status ({_describe_body(response)})"}
    error = errors.error_from_status(response.status, parsed)
    asked = retry_after(response)
    if asked is not None:
        error.retry_after = asked
    return error


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(limit_depth(body))
    except orjson.JSONDecodeError:
        return None


def _describe_body(response: Response) -> str:
    if not response.body:
        return "the response is empty"
    kind = response.header("Content-Type").partition(";")[0].strip()
    if "html" in kind or response.body.lstrip()[:1] == b"<":
        return "the response is HTML"
    return "the response is not a JSON object"


ERROR_LIMIT = 64 * 1024
"""How many bytes of a refused stream's response are read for the error message."""


class ServerCapabilities(Struct):
    """What is known about a server; shared by all users of one client."""

    supports_watch_list: bool = True  # until it refuses or ignores the request for its initial state


class RequestSender(Struct, frozen=True):
    """Sends requests over a transport with retries; watches do not count towards the concurrency limit."""

    transport: Transport
    policy: RetryPolicy
    in_flight: asyncio.Semaphore
    random: Random
    throttle: Throttle
    skew: ClockSkewMeter
    server: ServerCapabilities = field(default_factory=ServerCapabilities)

    async def send(self, request: Request) -> Response:
        """Send, retry while that may help, and return the last response; `Unreachable` when there was none."""
        now = asyncio.get_running_loop().time
        give_up_at = now() + self.policy.deadline
        failures = 0
        while True:
            held_back = self.throttle.refusal(request, now())
            outcome = held_back or await self._attempt(request, give_up_at)
            if isinstance(outcome, Response) and outcome.status < 429:
                return outcome
            failures += 1
            wait = choose_retry_delay(self.policy, request, outcome, failures, self.random)
            if isinstance(outcome, Response) and outcome.status == 429 and wait is not None:
                wait = self.throttle.delay(request, now()) or wait
            if wait is None or now() + wait >= give_up_at or (held_back and wait > self.policy.backoff.limit):
                break  # a long pause does not keep the caller from other work
            await asyncio.sleep(wait)
        if isinstance(outcome, errors.Unreachable):
            raise outcome
        return outcome

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Response]:
        """Send once; a successful response is read in chunks from `Response.stream`."""
        deadline = asyncio.timeout(self.policy.attempt_timeout)  # until the response begins
        try:
            async with deadline, self.transport.stream(request) as response:
                if not 200 <= response.status < 300:
                    raise refusal(await _read_body(response))
                deadline.reschedule(None)
                yield response
        except TimeoutError as cause:
            if not deadline.expired():
                raise
            raise self._timed_out() from cause

    async def _attempt(self, request: Request, give_up_at: float) -> Response | errors.Unreachable:
        now = asyncio.get_running_loop().time
        sent_at = now()
        response = None
        try:
            async with asyncio.timeout_at(min(sent_at + self.policy.attempt_timeout, give_up_at)), self.in_flight:
                response = await self.transport.send(request)
        except TimeoutError:
            return self._timed_out()
        except errors.Unreachable as error:
            return error
        finally:
            self.throttle.observe(request, response, now())
        self.skew.observe(response, sent_at=sent_at, received_at=now())
        return response

    def _timed_out(self) -> errors.TimedOut:
        return errors.TimedOut(
            f"no response within {self.policy.attempt_timeout:g} seconds: is the API server overloaded?"
        )


async def _read_body(response: Response) -> Response:
    if response.stream is None:
        return response
    body = b""
    async for chunk in response.stream:
        body += chunk
        if len(body) > ERROR_LIMIT:
            break
    return replace(response, body=body, stream=None)
