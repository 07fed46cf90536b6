from __future__ import annotations

from watchword.api.sensitive import HiddenFields


class Letter(HiddenFields, frozen=True):
    hidden = ("content",)

    recipient: str
    content: str
    stamps: int = 1


def test_hidden_field_is_not_shown() -> None:
    assert repr(Letter("edge", "the secret")) == "Letter(recipient='edge', stamps=1)"


def test_hidden_field_counts_for_equality() -> None:
    assert Letter("edge", "one") != Letter("edge", "another")
    assert Letter("edge", "one") == Letter("edge", "one")
