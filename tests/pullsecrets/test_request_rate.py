"""However many pull secrets are due at once, no second has more token requests than the limit."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from watchword.pullsecrets.request_rate import RequestRate


async def turns_of(rate: RequestRate, callers: int) -> list[float]:
    """Return when each of many callers that came at the same instant passed."""

    async def pass_() -> float:
        await rate.wait()
        return asyncio.get_running_loop().time()

    return sorted(await asyncio.gather(*(pass_() for _ in range(callers))))


@pytest.mark.parametrize("per_second", [1.0, 7.0, 100.0])
async def test_no_second_has_more_requests_than_the_limit(per_second: float) -> None:
    turns = await turns_of(RequestRate(per_second), 500)

    assert min(later - earlier for earlier, later in pairwise(turns)) == pytest.approx(1 / per_second)


async def test_first_request_after_a_pause_does_not_wait() -> None:
    rate = RequestRate(1)
    await turns_of(rate, 3)
    await asyncio.sleep(60)
    asked = asyncio.get_running_loop().time()

    assert await turns_of(rate, 2) == pytest.approx([asked, asked + 1])
