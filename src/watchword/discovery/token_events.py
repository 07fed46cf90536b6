"""Tells as Events what happens to join tokens: created, deleted, expired; by which program does not matter."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import SECRETS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.discovery.token_secret import TokenRecord, read_token_secret
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.reconcile import Done, Outcome, Reader


class SeenToken(Struct, frozen=True):
    """What was last seen of a token, without its secret."""

    secret: Object  # metadata alone
    id: str
    expires: datetime | None


class TokenEventReconciler(Struct, frozen=True):
    """Reconciles Secrets of the bootstrap token type. After a restart, tokens of the last hour are told again."""

    reader: Reader
    events: EventRecorder
    clock: Clock
    seen: dict[ObjectKey, SeenToken] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Compare the token that is there with the one that was there before."""
        before, now = self.seen.pop(key, None), self._observe(key)
        if now is not None:
            self.seen[key] = now
        if before is not None and (now is None or uid_of(now.secret) != uid_of(before.secret)):
            self._tell_end(before)
            before = None
        if before is None and now is not None and self._is_news(now):
            until = "never expires" if now.expires is None else f"expires at {rfc3339(now.expires)}"
            self.events.normal(now.secret, "JoinTokenCreated", f"join token {now.id} was created, and {until}")
        return Done()

    def _observe(self, key: ObjectKey) -> SeenToken | None:
        secret = self.reader.get(SECRETS, key)
        record = None if secret is None else read_token_secret(secret)
        if secret is None or not isinstance(record, TokenRecord):
            return None
        described: Object = {name: secret[name] for name in ("apiVersion", "kind", "metadata") if name in secret}
        return SeenToken(described, record.token.id, record.expires)

    def _tell_end(self, token: SeenToken) -> None:
        if token.expires is not None and token.expires <= self.clock.now():
            self.events.normal(token.secret, "JoinTokenExpired", f"join token {token.id} has expired and was deleted")
        else:
            self.events.normal(token.secret, "JoinTokenDeleted", f"join token {token.id} was deleted")

    def _is_news(self, token: SeenToken) -> bool:
        created = parse_rfc3339(str(token.secret["metadata"].get("creationTimestamp") or ""))
        return is_news(created, now=self.clock.now())
