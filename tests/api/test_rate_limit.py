"""Token buckets let a burst pass after a pause, and then no more than the rate."""

from __future__ import annotations

from itertools import pairwise

import pytest

from watchword.api.rate_limit import Rate, TokenBucket, TokenBuckets


@pytest.mark.parametrize("per_second", [1.0, 7.0, 100.0])
def test_without_a_burst_reservations_are_evenly_spaced(per_second: float) -> None:
    bucket = TokenBucket(Rate(per_second))

    turns = [bucket.reserve(0.0) for _ in range(500)]

    assert turns[0] == 0
    assert min(later - earlier for earlier, later in pairwise(turns)) == pytest.approx(1 / per_second)


def test_burst_passes_at_once_and_the_next_ones_wait() -> None:
    bucket = TokenBucket(Rate(2.0, burst=3))

    assert [bucket.reserve(10.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.5, 1.0])


def test_pause_refills_no_more_than_the_burst() -> None:
    bucket = TokenBucket(Rate(1.0, burst=2))
    for _ in range(4):
        bucket.reserve(0.0)

    assert [bucket.reserve(1000.0) for _ in range(3)] == [0, 0, 1.0]


def test_no_token_before_the_end_of_a_pause() -> None:
    bucket = TokenBucket(Rate(2.0, burst=3))

    bucket.pause(until=60.0)

    assert [bucket.reserve(0.0) for _ in range(2)] == [60.0, 60.5]


def test_each_name_has_its_own_bucket_and_a_refusal_takes_nothing() -> None:
    buckets = TokenBuckets(Rate(1.0), limit=10)

    assert [buckets.take("a", 0.0), buckets.take("b", 0.0)] == [0, 0]
    assert [buckets.take("a", 0.25) for _ in range(3)] == [0.75] * 3
    assert buckets.take("a", 1.0) == 0


def test_name_that_was_silent_longest_is_forgotten_first() -> None:
    buckets = TokenBuckets(Rate(1.0), limit=2)
    for name in ("a", "b", "a", "c"):
        buckets.take(name, 0.0)

    assert buckets.take("a", 0.0) > 0
    assert buckets.take("b", 0.0) == 0
