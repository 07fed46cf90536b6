"""Who looks at the dashboard, and what they may see: refreshed while they look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.sensitive import Sensitive
from watchword.dashboard.sessions import SESSION_LIFETIME, Session, SessionStore
from watchword.dashboard.visibility import EVERYTHING, Visibility, review_visibility
from watchword.kube.access_reviews import UserIdentity, review_token, who_am_i
from watchword.kube.client import Client
from watchword.runtime.clock import Clock

REVIEWED_EVERY = timedelta(seconds=60)
"""How long a withdrawn right or a revoked token may go unnoticed."""


class OwnRights(Struct):
    """Everyone who has the one-time address sees what this kubeconfig may read."""

    client: Client
    clock: Clock
    sessions: SessionStore = field(default_factory=SessionStore)
    login: bool = False

    async def sign_in(self, proof: str) -> str | None:
        """Return the cookie of a new session for a one-time code, None when it is not the code."""
        now = self.clock.now()
        if not self.sessions.redeem(proof, now):
            return None
        return self.sessions.open(Session(await who_am_i(self.client), now + SESSION_LIFETIME), now)

    async def see(self, cookie: str) -> Visibility | None:
        """Return what a session may see, None when there is no such session."""
        return EVERYTHING if self.sessions.find(cookie, self.clock.now()) is not None else None


class _Review(Struct, frozen=True):
    who: UserIdentity
    seen: Visibility
    places: frozenset[str]
    at: datetime


class ReviewedRights(Struct):
    """Everyone sees what the API server allows them: TokenReview at sign-in, then SubjectAccessReview."""

    client: Client
    clock: Clock
    places: Callable[[], frozenset[str]]  # clusters and namespaces for which rights are asked one by one
    sessions: SessionStore = field(default_factory=SessionStore)
    login: bool = True
    _reviews: dict[Session, _Review] = field(default_factory=dict)
    _locks: dict[Session, asyncio.Lock] = field(default_factory=dict)

    async def sign_in(self, proof: str) -> str | None:
        """Return the cookie of a new session for a bearer token, None when the server refuses the token."""
        token = Sensitive(proof)
        who = await review_token(self.client, token)
        now = self.clock.now()
        return None if who is None else self.sessions.open(Session(who, now + SESSION_LIFETIME, token), now)

    async def see(self, cookie: str) -> Visibility | None:
        """Return what a session may see, None when there is none or its token is refused by now."""
        session = self.sessions.find(cookie, self.clock.now())
        if session is None or session.token is None:
            return None
        async with self._locks.setdefault(session, asyncio.Lock()):  # all pages of a browser share its reviews
            now, places, held = self.clock.now(), self.places(), self._reviews.get(session)
            if held is not None and now - held.at < REVIEWED_EVERY:
                seen = await self._extend(session, held, places)
                if seen is not None:
                    return seen
            return await self._review(cookie, session, session.token, places)

    async def _extend(self, session: Session, held: _Review, places: frozenset[str]) -> Visibility | None:
        """Ask only for places that are new; None when the answer is not that of the review."""
        added = places - held.places
        if not added:
            return held.seen
        seen = held.seen.extended(await review_visibility(self.client, held.who, added))
        if seen is not None:
            self._reviews[session] = _Review(held.who, seen, held.places | added, held.at)
        return seen

    async def _review(
        self, cookie: str, session: Session, token: Sensitive[str], places: frozenset[str]
    ) -> Visibility | None:
        now, held = self.clock.now(), self._reviews.get(session)
        who = await review_token(self.client, token)
        if who is None or not is_same_user(who, session.who):
            self.sessions.close(cookie)
            self._reviews.pop(session, None)
            return None
        seen = await review_visibility(self.client, who, places)
        if held is not None and held.seen == seen:
            seen = held.seen
        self._reviews = {each: kept for each, kept in self._reviews.items() if now < each.ends}
        self._locks = {each: lock for each, lock in self._locks.items() if now < each.ends}
        self._reviews[session] = _Review(who, seen, places, now)
        return seen


def is_same_user(one: UserIdentity, other: UserIdentity) -> bool:
    """Whether two reviews found the same user; groups may change meanwhile."""
    return (one.username, one.uid) == (other.username, other.uid)


Viewers = OwnRights | ReviewedRights
