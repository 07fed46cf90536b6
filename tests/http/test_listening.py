"""Which addresses a server listens on."""

from __future__ import annotations

import pytest

from watchword.http.server import bind_sockets


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1", ["127.0.0.1"], id="one host"),
        pytest.param("127.0.0.2,127.0.0.1", ["127.0.0.2", "127.0.0.1"], id="address of a pod, and loopback"),
        pytest.param("127.0.0.1,127.0.0.1", ["127.0.0.1"], id="the same host twice"),
    ],
)
async def test_server_listens_on_every_host_that_is_named(host: str, expected: list[str]) -> None:
    opened = await bind_sockets(host, 0)
    addresses = [each.getsockname()[0] for each in opened]
    for each in opened:
        each.close()

    assert addresses == expected
