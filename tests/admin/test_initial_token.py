"""Which token `init` prints again, and when it makes a new one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from watchword.admin.init import DESCRIPTION, TokenSpec, choose_reusable_token
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.discovery.token_secret import TokenRecord, TokenUsage
from watchword.discovery.tokens import BootstrapToken

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(hours=24)
TOKEN = BootstrapToken.parse("x7k2m9.q8w3e5r1t0y6u4i2")
SAME_ID = BootstrapToken.parse("x7k2m9.aaaa3e5r1t0y6u4i")
EARLIER = TokenRecord(
    TOKEN, expires=NOW + timedelta(hours=20), description=DESCRIPTION, groups=(MANAGED_CLUSTER_GROUP,)
)


@pytest.mark.parametrize(
    ("record", "wish"),
    [
        pytest.param(EARLIER, TokenSpec(), id="the one of an earlier run"),
        pytest.param(replace(EARLIER, expires=None), TokenSpec(timedelta(0)), id="one that lives for ever"),
        pytest.param(replace(EARLIER, description="mine"), TokenSpec(token=TOKEN), id="the very one given"),
    ],
)
def test_a_token_is_found_again(record: TokenRecord, wish: TokenSpec) -> None:
    assert choose_reusable_token([record], wish, now=NOW) == record


@pytest.mark.parametrize(
    ("record", "wish"),
    [
        pytest.param(replace(EARLIER, description="mine"), TokenSpec(), id="of another program"),
        pytest.param(replace(EARLIER, expires=NOW + timedelta(hours=11)), TokenSpec(), id="soon to expire"),
        pytest.param(replace(EARLIER, expires=NOW), TokenSpec(), id="expired"),
        pytest.param(replace(EARLIER, expires=None), TokenSpec(), id="for ever, when a day is wanted"),
        pytest.param(EARLIER, TokenSpec(timedelta(0)), id="for a day, when for ever is wanted"),
        pytest.param(EARLIER, TokenSpec(timedelta(hours=1)), id="for longer than is wanted"),
        pytest.param(EARLIER, TokenSpec(groups=("system:bootstrappers:nodes",)), id="of another group"),
        pytest.param(replace(EARLIER, usages=(TokenUsage.SIGNING,)), TokenSpec(), id="that cannot authenticate"),
        pytest.param(EARLIER, TokenSpec(token=SAME_ID), id="of the same id and another secret"),
    ],
)
def test_a_token_that_does_not_serve_is_left_alone(record: TokenRecord, wish: TokenSpec) -> None:
    assert choose_reusable_token([record], wish, now=NOW) is None
