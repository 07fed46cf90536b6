"""Tokens that a reviewer elsewhere vouches for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.apiserver.access.chain import (
    AuthenticatedIdentity,
    CredentialRefused,
    WebhookTokenAuthenticator,
    decide_review_result,
)
from watchword.apiserver.serving.model import User

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOB: dict[str, Any] = {"authenticated": True, "user": {"username": "bob", "uid": "1", "groups": ["dev"]}}


class Reviewer:
    """Responds with a fixed status and counts the requests."""

    def __init__(self, status: Object) -> None:
        self.status = status
        self.asked: list[Object] = []

    async def __call__(self, question: Object) -> Mapping[str, Any]:
        self.asked.append(question)
        return {"status": self.status}


@pytest.mark.parametrize(
    ("status", "asked", "expected"),
    [
        pytest.param({}, ("api",), None, id="no answer"),
        pytest.param({"authenticated": False}, ("api",), None, id="unknown token"),
        pytest.param({**BOB, "audiences": ["vault"]}, ("api",), None, id="for another audience"),
        pytest.param(BOB, ("vault",), None, id="a reviewer without audiences speaks for this plane alone"),
        pytest.param(BOB, ("api",), AuthenticatedIdentity(User("bob", "1", ("dev",)), ("api",)), id="known"),
        pytest.param(
            {**BOB, "audiences": ["vault", "api"]},
            ("vault", "x"),
            AuthenticatedIdentity(User("bob", "1", ("dev",)), ("vault",)),
            id="known for one of the audiences",
        ),
    ],
)
def test_read_answer(status: Object, asked: tuple[str, ...], expected: AuthenticatedIdentity | None) -> None:
    assert decide_review_result(status, asked=asked, api_audiences=("api",)) == expected


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"error": "backend down"}, id="an error"),
        pytest.param({"authenticated": True, "user": {}}, id="no user named"),
    ],
)
def test_unusable_response_is_a_refusal(status: Object) -> None:
    with pytest.raises(CredentialRefused):
        decide_review_result(status, asked=("api",), api_audiences=("api",))


async def test_positive_review_is_cached_for_ten_seconds() -> None:
    clock, reviewer = [NOW], Reviewer(BOB)
    webhook = WebhookTokenAuthenticator(reviewer, ("api",), lambda: clock[0])

    first = await webhook.identify("t", ("api",))
    second = await webhook.identify("t", ("api",))
    assert first == second
    assert len(reviewer.asked) == 1
    await webhook.identify("u", ("api",))
    clock[0] += timedelta(seconds=10)
    await webhook.identify("t", ("api",))
    assert [question["spec"]["token"] for question in reviewer.asked] == ["t", "u", "t"]


async def test_unreachable_reviewer_is_a_refusal() -> None:
    async def fail(_question: Object) -> Mapping[str, Any]:
        raise ConnectionRefusedError

    with pytest.raises(CredentialRefused):
        await WebhookTokenAuthenticator(fail, ("api",), lambda: NOW).identify("t", ("api",))
