"""Authenticates tokens by TokenReview at another server, as kube-apiserver's webhook does."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object
from watchword.apiserver.authn.cache import TtlCache
from watchword.apiserver.authn.errors import CredentialRefused
from watchword.apiserver.authn.model import AuthenticatedIdentity
from watchword.apiserver.model import Now, User

ANSWERS_REMEMBERED = timedelta(seconds=10)

TokenReviewer = Callable[[Object], Awaitable[Mapping[str, Any]]]
"""Sends a TokenReview and returns the reviewed one; raises OSError or TimeoutError without a response."""


class WebhookTokenAuthenticator(Struct, frozen=True):
    """Accepts the reviewer's result, cached for ten seconds if positive; an unreachable reviewer means refused."""

    review: TokenReviewer
    api_audiences: tuple[str, ...]
    now: Now
    cache: TtlCache[AuthenticatedIdentity] = field(default_factory=lambda: TtlCache(ANSWERS_REMEMBERED))

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return whom the reviewer names, None when it does not know the token."""
        asked = "\0".join((token, *audiences)).encode("utf-8", "surrogatepass")
        digest, now = hashlib.sha256(asked).digest(), self.now()
        known = self.cache.get(digest, now=now)
        if known is None:
            known = await self._send_review(token, audiences)
            if known is not None:
                self.cache.put(digest, known, now=now)
        return known

    async def _send_review(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        question: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token, "audiences": list(audiences)},
        }
        try:
            answer = await self.review(question)
        except (OSError, TimeoutError) as cause:
            raise CredentialRefused("the token reviewer cannot be reached") from cause
        return decide_review_result(answer.get("status") or {}, asked=audiences, api_audiences=self.api_audiences)


def decide_review_result(
    status: Mapping[str, Any], *, asked: tuple[str, ...], api_audiences: tuple[str, ...]
) -> AuthenticatedIdentity | None:
    """Decide from the reviewer's status; raise CredentialRefused for an error or a foreign audience."""
    if not status.get("authenticated"):
        if status.get("error"):
            raise CredentialRefused(str(status["error"]))
        return None
    # a review without audiences counts for this server alone
    vouched = tuple(status.get("audiences") or api_audiences)
    audiences = tuple(audience for audience in asked if audience in vouched)
    if asked and not audiences:
        return None
    row = status.get("user") or {}
    extra = {key: tuple(values) for key, values in (row.get("extra") or {}).items()}
    user = User(row.get("username") or "", row.get("uid") or "", tuple(row.get("groups") or ()), extra)
    if not user.name:
        raise CredentialRefused("the token reviewer named no user")
    return AuthenticatedIdentity(user, audiences)
