"""Learns which keys sign service account tokens, and triggers pull secrets when that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from watchword._structlog import structlog
from watchword.api.meta import ObjectKey
from watchword.api.pull_secrets import SIGNING_KEY_SECRET
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.tokens import read_published_key_ids, request_token
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import read_unverified_header
from watchword.pullsecrets.signing_keys import SigningKeys, declared_key_ids
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader, TriggerSource

PROBE_ACCOUNT = ObjectKey("default", "default")
PROBE_AUDIENCE = "watchword.dev/signing-key-probe"  # of no server, so the token is worth nothing
PROBE_SECONDS = 600


class SigningKeyMonitor(Struct, frozen=True):
    """Looks at the signing keys regularly; what it cannot learn leaves the keys as they were."""

    reader: Reader
    client: Client
    clock: Clock
    keys: SigningKeys
    pull_secrets: Callable[[], Iterable[ObjectKey]]
    trigger: TriggerSource

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self.keys.timing.poll.total_seconds())

    async def look(self) -> None:
        """Learn the keys once; trigger every pull secret when they changed."""
        before = self.keys.published
        now = self.clock.now()
        self.keys.declared = declared_key_ids(self.reader.get(SECRETS, SIGNING_KEY_SECRET))
        self.keys.published = await self._read_published() or before
        if not self.keys.declared and not self.keys.was_issued_since(now - self.keys.timing.poll):
            await self._probe(now)
        self.keys.update(now=now)
        if self.keys.take_news() or self.keys.published != before:
            self.trigger.enqueue_all(self.pull_secrets())

    async def _read_published(self) -> frozenset[str]:
        try:
            return await read_published_key_ids(self.client)
        except KubeError as error:
            self._log("the key set of the server was not read", error)
            return frozenset()

    async def _probe(self, now: datetime) -> None:
        """Ask for a token that no server accepts, and look at its header alone."""
        try:
            issued = await request_token(
                self.client, PROBE_ACCOUNT, expiration_seconds=PROBE_SECONDS, audiences=(PROBE_AUDIENCE,)
            )
            key_id = read_unverified_header(issued.token.reveal()).get("kid")
        except (KubeError, InvalidJwt) as error:
            self._log("no token was issued to learn the signing key from", error)
            return
        if isinstance(key_id, str) and key_id:
            self.keys.observe_token(key_id, now=now)

    def _log(self, message: str, error: Exception) -> None:
        log: Any = structlog.get_logger("watchword.pullsecrets")
        log.warning(message, error=str(error))
