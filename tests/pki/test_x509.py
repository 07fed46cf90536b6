"""The library of certificates is complete, although its patterns are compiled late."""

from __future__ import annotations

from watchword.pki.x509 import x509


def test_names_are_parsed_from_text() -> None:
    name = x509.Name.from_rfc4514_string(r"CN=Zoë\, the first,O=example")

    assert [each.value for each in name] == ["example", "Zoë, the first"]
