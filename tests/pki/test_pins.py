from __future__ import annotations

import pytest

from watchword.pki.errors import PinRefused
from watchword.pki.keys import Pin, PrivateKey, is_pinned

ONE, OTHER = PrivateKey.generate().public, PrivateKey.generate().public


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("a" * 64, id="no format"),
        pytest.param("sha1:" + "a" * 40, id="another hash"),
        pytest.param("sha256:" + "a" * 63, id="too short"),
        pytest.param("sha256:" + "a" * 65, id="too long"),
        pytest.param("sha256:" + "g" * 64, id="not hexadecimal"),
        pytest.param("sha256:" + "a" * 64 + "\n", id="trailing newline"),
        pytest.param("sha256:" + "\u0660" * 64, id="digits of another script"),
        pytest.param("sha256:" + "a" * 64 + ",sha256:" + "b" * 64, id="two at once"),
    ],
)
def test_a_malformed_pin_is_refused(text: str) -> None:
    with pytest.raises(PinRefused, match="64 hexadecimal digits"):
        Pin.parse(text)


def test_a_pin_is_read_in_any_case_and_written_in_lower_case() -> None:
    pin = Pin.of(ONE)
    assert Pin.parse(str(pin).upper().replace("SHA256", "Sha256")) == pin
    assert str(pin) == f"sha256:{ONE.thumbprint}"


def test_one_pinned_key_is_enough_and_none_is_not() -> None:
    assert is_pinned([OTHER, ONE], [Pin.of(ONE)])
    assert not is_pinned([OTHER], [Pin.of(ONE)])
    assert not is_pinned([ONE], [])
