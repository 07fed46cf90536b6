"""A running fleet serves its dashboard."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = [pytest.mark.timeout(300)]


def get(address: str, cookie: str = "") -> http.client.HTTPResponse:
    where = urlsplit(address)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port or 0, timeout=60)
    connection.request("GET", f"{where.path}?{where.query}", headers={"Cookie": cookie})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_fleet_serves_its_dashboard_under_an_address_that_works_once(start_up: Any) -> None:
    up = start_up("--ephemeral", "--clusters=0")

    address = up.until("ready")["dashboard"]
    opened, again = get(address), get(address)
    page = get(address.partition("?")[0], (opened.getheader("Set-Cookie") or "").partition(";")[0])

    assert [answer.status for answer in (opened, again, page)] == [200, 401, 200]
    assert up.interrupt() == 0
