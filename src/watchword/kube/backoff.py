"""How long a client waits: after failures, and while the server answers requests of a kind with 429."""

import math
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.http import Request, Response

SHORTEST_WAIT = 1.0
LONGEST_RETRY_AFTER = 300.0  # seconds: a server that asks for days, or a proxy before it, is asked again all the same
Bucket = tuple[str, str, str]


class Backoff(Struct, frozen=True):
    """Exponential backoff up to a limit; half of each delay is random, so that clients do not retry in step."""

    first: float = 0.1
    factor: float = 2.0
    limit: float = 30.0

    def delay(self, failures: int, random: Random) -> float:
        """Return the delay in seconds after that many failures in a row (at least one)."""
        ceiling = min(self.limit, self.first * self.factor ** min(failures - 1, 64))
        return ceiling * (0.5 + random.random() / 2)


class Pause(Struct):
    """Requests of one bucket wait; when the time has come, one of them asks and decides for all."""

    response: Response
    until: float
    failures: int = 1
    asking: Request | None = None


class Throttle(Struct, frozen=True):
    """However many credentials a client renews, a server that answers 429 gets one request per pause.

    A bucket is a verb of a kind or subresource: a signer that is busy does not hold up the renewal of leases.
    """

    random: Random
    backoff: Backoff = Backoff(first=0.1, limit=60.0)
    paused: dict[Bucket, Pause] = field(default_factory=dict)

    def refusal(self, request: Request, now: float) -> Response | None:
        """Return the server's last 429 while the bucket is paused; None when this request may be sent."""
        pause = self.paused.get(bucket_of(request))
        if pause is None:
            return None
        if now >= pause.until and pause.asking is None:
            pause.asking = request
            return None
        left = math.ceil(max(pause.until - now, SHORTEST_WAIT))
        others = tuple(header for header in pause.response.headers if header[0].lower() != "retry-after")
        return replace(pause.response, headers=(*others, ("Retry-After", str(left))))

    def observe(self, request: Request, response: Response | None, now: float) -> None:
        """Take an outcome into account; None: there was no response."""
        bucket = bucket_of(request)
        pause = self.paused.get(bucket)
        asked = pause is not None and pause.asking is request
        if asked and pause is not None:
            pause.asking = None
        if response is None:
            return
        if response.status != 429:
            self.paused.pop(bucket, None)
        elif pause is None:
            self.paused[bucket] = Pause(response, now + self._delay(response, 1))
        elif asked:  # the others were sent before the first refusal, and tell nothing new
            pause.failures += 1
            pause.response, pause.until = response, now + self._delay(response, pause.failures)

    def delay(self, request: Request, now: float) -> float:
        """Return the seconds until the bucket of a request may be asked again."""
        pause = self.paused.get(bucket_of(request))
        return max(pause.until - now, 0.0) if pause is not None else 0.0

    def _delay(self, response: Response, failures: int) -> float:
        asked = min(retry_after(response) or 0.0, LONGEST_RETRY_AFTER)
        return asked + self.backoff.delay(failures, self.random)


def retry_after(response: Response) -> float | None:
    text = response.header("Retry-After")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def bucket_of(request: Request) -> Bucket:
    """Return verb, resource and subresource: `/apis/GROUP/VERSION/namespaces/NS/RESOURCE/NAME/SUBRESOURCE`."""
    parts = request.path.strip("/").split("/")[2 if request.path.startswith("/api/") else 3 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return request.method, parts[0] if parts else "", parts[2] if len(parts) > 2 else ""
