"""Token buckets: how many requests a second, and how many at once after a pause."""

from msgspec import Struct, field


class Rate(Struct, frozen=True):
    """How many requests a second, and how many at once after a pause."""

    per_second: float
    burst: float = 1.0


class TokenBucket(Struct):
    """Holds up to `burst` tokens, and refills at its rate. Time is in seconds of any steady clock."""

    rate: Rate
    _full_at: float = float("-inf")  # tells the level: the bucket fills at a constant rate

    def wait(self, now: float) -> float:
        """Return how long it takes until there is a token; 0 when there is one."""
        return max(0.0, self._full_at - now - (self.rate.burst - 1) / self.rate.per_second)

    def reserve(self, now: float) -> float:
        """Take the next token, even a future one; return how long the caller must wait for it."""
        wait = self.wait(now)
        self._full_at = max(self._full_at, now) + 1 / self.rate.per_second
        return wait

    def pause(self, until: float) -> None:
        self._full_at = max(self._full_at, until + (self.rate.burst - 1) / self.rate.per_second)


class TokenBuckets(Struct):
    """One bucket per name, for a bounded number of names: the longest silent one is forgotten first."""

    rate: Rate
    limit: int
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)

    def take(self, name: str, now: float) -> float:
        """Take a token and return 0; where there is none, return how long the name must wait for one."""
        bucket = self._buckets.pop(name, None) or TokenBucket(self.rate)
        self._buckets[name] = bucket
        if len(self._buckets) > self.limit:
            del self._buckets[next(iter(self._buckets))]
        return bucket.wait(now) or bucket.reserve(now)
