"""Values are remembered for their time, and only so many of them."""

from __future__ import annotations

import pytest

from watchword.api.expiring_map import ExpiringMap


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(100.0, "value", id="at once"),
        pytest.param(109.9, "value", id="within its time"),
        pytest.param(110.0, None, id="after its time"),
        pytest.param(99.9, None, id="the clock was set back"),
    ],
)
def test_value_is_returned_within_its_time(now: float, expected: str | None) -> None:
    remembered = ExpiringMap[str, str](10)
    remembered.put("key", "value", now=100.0, seconds=10.0)

    assert remembered.get("key", now=now) == expected


def test_oldest_value_is_forgotten_when_there_are_too_many() -> None:
    remembered = ExpiringMap[str, int](2)
    for number, key in enumerate(("a", "b", "a", "c")):
        remembered.put(key, number, now=0.0, seconds=1.0)

    assert [remembered.get(key, now=0.0) for key in ("a", "b", "c")] == [2, None, 3]
    assert len(remembered) == 2


def test_keys_that_match_are_forgotten() -> None:
    remembered = ExpiringMap[str, int](10)
    for key in ("edge-1/a", "edge-1/b", "edge-2/a"):
        remembered.put(key, 1, now=0.0, seconds=1.0)

    remembered.forget(lambda key: key.startswith("edge-1/"))

    assert [remembered.get(key, now=0.0) for key in ("edge-1/a", "edge-2/a")] == [None, 1]
