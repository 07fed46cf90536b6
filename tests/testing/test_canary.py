"""A spilled secret is recognised in whatever form it was spilled."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from tests.helpers.leak_search import Canary, SecretLeaked

from watchword.api.sensitive import Sensitive

SECRET = "sw0rdfish/+~\x7f secret"


@pytest.mark.parametrize(
    "spill",
    [
        pytest.param(lambda s: f"token is {s}!", id="as it is"),
        pytest.param(lambda s: s.encode().hex(), id="hexadecimal"),
        pytest.param(lambda s: quote(s, safe=""), id="percent-encoded"),
        pytest.param(lambda s: base64.b64encode(s.encode()).decode(), id="base64"),
        pytest.param(lambda s: base64.b64encode(f"a{s}".encode()).decode(), id="base64 after one byte"),
        pytest.param(lambda s: base64.b64encode(f"ab{s}cd".encode()).decode(), id="base64 within a text"),
        pytest.param(lambda s: base64.urlsafe_b64encode(s.encode()).decode(), id="base64url"),
    ],
)
def test_secret_is_recognised(spill: Callable[[str], str]) -> None:
    canary = Canary()
    canary.look_for("the join token", SECRET)

    assert canary.found_in(spill(SECRET)) == ["the join token"]
    assert canary.found_in(spill("sw0rdfish/+~\x7f public")) == []


def test_finding_names_the_place_and_not_the_value() -> None:
    canary = Canary()
    value = canary.plant("the admin password")

    with pytest.raises(SecretLeaked, match="standard output shows the secret of the admin password") as raised:
        canary.assert_not_leaked("standard output", f"password={value}")

    assert value not in str(raised.value)


def test_planted_bootstrap_token_has_the_form_of_one_and_a_public_half() -> None:
    canary = Canary()

    token = canary.plant_bootstrap_token("join")

    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", token)
    assert canary.found_in(token.split(".")[0]) == []
    assert canary.found_in(token) == ["join"]


def test_secret_made_by_the_product_can_be_looked_for() -> None:
    canary = Canary()

    canary.look_for("issued", Sensitive(SECRET))

    assert canary.found_in(repr(Sensitive(SECRET))) == []
    assert canary.found_in(SECRET) == ["issued"]


def test_short_value_is_no_canary() -> None:
    with pytest.raises(ValueError, match="8 characters or more"):
        Canary().look_for("pin", "1234")
