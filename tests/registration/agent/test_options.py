"""What keeps an agent from starting, and what it only warns about."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers.fleet import lifetime_settings

from watchword.processes.agent import agent_option_warnings, validate_agent_options
from watchword.registration.agent.options import AgentOptions

GOOD = AgentOptions("edge-1")

SHORT = lifetime_settings(certificate=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("changes", "objection"),
    [
        pytest.param({"cluster_name": "Edge_1"}, "is not a DNS label", id="no name for a cluster"),
        pytest.param({"registration_auth": "pigeon"}, "there is no driver 'pigeon'", id="unknown way to register"),
        pytest.param({"addon_auth": "pigeon"}, "choose one of csr, token", id="unknown way for add-ons"),
        pytest.param(
            {"settings": lifetime_settings(certificate=timedelta(minutes=1))},
            "at least an hour",
            id="short certificate",
        ),
        pytest.param({"external_urls": ("http://x",)}, "not an https address", id="address in the clear"),
    ],
)
def test_agent_that_cannot_start(changes: dict[str, Any], objection: str) -> None:
    said = validate_agent_options(replace(GOOD, **changes))

    assert len(said) == 1
    assert objection in said[0]


def test_agent_that_can_start() -> None:
    assert (
        validate_agent_options(GOOD) == validate_agent_options(replace(GOOD, registration_auth="", addon_auth="")) == []
    )


@pytest.mark.parametrize(
    ("life", "warnings"),
    [
        pytest.param(timedelta(days=365), 0, id="a year"),
        pytest.param(timedelta(hours=1), 0, id="an hour"),
        pytest.param(timedelta(seconds=3599), 1, id="less than an hour"),
    ],
)
def test_short_tokens_are_allowed_and_warned_about(life: timedelta, warnings: int) -> None:
    options = replace(GOOD, settings=lifetime_settings(token=life))

    assert validate_agent_options(options) == []
    assert len(agent_option_warnings(options)) == warnings
