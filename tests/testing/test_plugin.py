"""The plugin brings tests into the order of a seed."""

from __future__ import annotations

import itertools

import pytest
from tests.conftest import shuffle


def modules_of(items: list[pytest.Item]) -> list[str]:
    return [item.nodeid.partition("::")[0] for item in items]


def test_a_seed_is_an_order_that_keeps_modules_together(request: pytest.FixtureRequest) -> None:
    first, again, other = (list(request.session.items) for _ in range(3))

    shuffle(first, 1)
    shuffle(again, 1)
    shuffle(other, 2)

    assert first == again
    assert set(first) == set(other) == set(request.session.items)
    together = [module for module, _ in itertools.groupby(modules_of(first))]
    assert len(together) == len(set(together))
