from __future__ import annotations

import pytest

from watchword.pki.keys import armour, blocks

FIRST, SECOND = armour(b"first", "KEY"), armour(b"second")
UNENDED = b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"text " + FIRST + b"text", [("KEY", b"first")], id="text around it"),
        pytest.param(FIRST + SECOND, [("KEY", b"first"), ("CERTIFICATE", b"second")], id="two"),
        pytest.param(FIRST.replace(b"\n", b"\r\n"), [("KEY", b"first")], id="lines of Windows"),
        pytest.param(UNENDED + SECOND, [("CERTIFICATE", b"second")], id="one without an end before it"),
        pytest.param(FIRST.replace(b"END KEY", b"END KEYS") + SECOND, [("CERTIFICATE", b"second")], id="another end"),
        pytest.param(b"-----BEGIN KEY-----\n" + SECOND + b"-----END KEY-----\n", [], id="one in another"),
        pytest.param(b"-----BEGIN KEY-----\nProc-Type: 4\n\nAAAA\n-----END KEY-----\n", [], id="headers"),
        pytest.param(b"-----BEGIN KEY-----\n!!\n-----END KEY-----\n" + FIRST, [("KEY", b"first")], id="no base64"),
    ],
)
def test_each_readable_block_is_found_in_its_order(text: bytes, expected: list[tuple[str, bytes]]) -> None:
    assert list(blocks(text)) == expected
