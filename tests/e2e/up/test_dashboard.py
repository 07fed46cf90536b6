"""A running fleet serves its dashboard."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.harness import fetch

pytestmark = [pytest.mark.timeout(300)]


def test_fleet_serves_its_dashboard_under_an_address_that_works_once(start_up: Any) -> None:
    up = start_up("--ephemeral", "--clusters=0")

    address = up.until("ready")["dashboard"]
    opened, again = fetch(address), fetch(address)
    page = fetch(address.partition("?")[0], (opened.getheader("Set-Cookie") or "").partition(";")[0])

    assert [answer.status for answer in (opened, again, page)] == [200, 401, 200]
    assert up.interrupt() == 0
