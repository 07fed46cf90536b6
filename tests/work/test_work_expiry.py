"""When a finished work is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.api.validation import LONGEST_SPAN
from watchword.work.hub import decide_work_expiry

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def a_work(seconds: Any, status: str = "True", since: str = rfc3339(NOW)) -> Object:
    row = {"type": "Complete", "status": status, "lastTransitionTime": since}
    option = {} if seconds is None else {"ttlSecondsAfterFinished": seconds}
    return {"spec": {"deleteOption": option}, "status": {"conditions": [row]}}


@pytest.mark.parametrize(
    ("work", "due"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param(a_work(None), None, id="no time given"),
        pytest.param(a_work(-1), None, id="negative"),
        pytest.param(a_work(True), None, id="not a number"),
        pytest.param(a_work(2**62), NOW + LONGEST_SPAN, id="longer than the longest span"),
        pytest.param(a_work(60, status="False"), None, id="not complete"),
        pytest.param(a_work(60, since="yesterday"), None, id="unreadable instant"),
        pytest.param(a_work(60), NOW + timedelta(seconds=60), id="a minute after"),
        pytest.param(a_work(0), NOW, id="at once"),
    ],
)
def test_decide_expiry(work: Object, due: datetime | None) -> None:
    assert decide_work_expiry(work) == due
