"""A `Sensitive` value is only returned by `reveal()`."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import orjson
import pytest

from watchword.api.sensitive import Sensitive

CANARY = "q8w3e5r1t0y6u4i2"


@dataclass(frozen=True)
class Holder:
    name: str
    secret: Sensitive[str]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(repr, id="repr"),
        pytest.param(str, id="str"),
        pytest.param(lambda value: f"{value}", id="f-string"),
        pytest.param(lambda value: f"{value!r:>40}", id="f-string with a width"),
        pytest.param(lambda value: f"{value:>40}", id="format with a width"),
        pytest.param(lambda value: "%s %r" % (value, value), id="percent"),  # noqa: UP031 - old code writes so
        pytest.param(lambda value: repr(Holder("edge", value)), id="inside a dataclass"),
        pytest.param(lambda value: repr({"token": [value]}), id="inside a container"),
        pytest.param(lambda value: str(ValueError(value)), id="inside an error"),
    ],
)
def test_no_way_of_writing_shows_the_secret(write: Callable[[Sensitive[str]], str]) -> None:
    written = write(Sensitive(CANARY))

    assert CANARY not in written
    assert "***" in written


@pytest.mark.parametrize(
    "serialise",
    [
        pytest.param(pickle.dumps, id="pickle"),
        pytest.param(copy.deepcopy, id="a deep copy"),
        pytest.param(json.dumps, id="json"),
        pytest.param(orjson.dumps, id="orjson"),
    ],
)
def test_no_serialiser_takes_the_secret_along(serialise: Callable[[Sensitive[str]], object]) -> None:
    with pytest.raises(TypeError) as refusal:
        serialise(Sensitive(CANARY))

    assert CANARY not in str(refusal.value)


def test_reveal_returns_the_secret_and_equal_secrets_compare_equal() -> None:
    assert Sensitive(CANARY).reveal() == CANARY
    assert Sensitive(CANARY) == Sensitive(CANARY)
    assert Sensitive(CANARY) != Sensitive(CANARY[::-1])
    assert Sensitive(CANARY) != CANARY
    assert not Sensitive("")
