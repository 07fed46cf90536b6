"""Deletes bootstrap tokens at the instant they expire."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from watchword.api.meta import ObjectKey, is_deleting, uid_of
from watchword.api.resources import SECRETS
from watchword.discovery.token_secret import is_token_secret, read_expiration
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter


class TokenCleanerReconciler(Struct, frozen=True):
    """Reconciles Secrets of the bootstrap token type; sleeps until each one's expiration."""

    reader: Reader
    client: Client
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Delete the token at its expiry, else requeue until then."""
        secret = self.reader.get(SECRETS, key)
        if secret is None or not is_token_secret(secret) or is_deleting(secret):
            return Done()
        expires, now = read_expiration(secret), self.clock.now()
        if expires is None:
            return Done()
        if expires > now:
            return RetryAfter(expires - now)
        with suppress(NotFound, Conflict):  # gone already, or another token of that id has taken its place
            await self.client.delete(SECRETS, key, uid=uid_of(secret))
        return Done()
