"""Keeps one credential alive in its Secret: obtained, renewed in time, restored when damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import SECRETS
from watchword.credentials.driver import AgentDriver, ObtainResult, Pending, SecretData, WantedCredential
from watchword.credentials.secret_data import SecretExtras, choose_secret_data, data_patch, decode_data, encode_data
from watchword.kube.client import Client
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.event_loop import running
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

MAX_STEPS = 4  # key, request, decision: enough for a hub that decides immediately, too few to spin


class CredentialKeeper(Struct, frozen=True, kw_only=True):
    """Takes the steps towards one credential and stores each in the Secret."""

    reader: Reader  # of this cluster
    cluster: Client  # this cluster
    clock: Clock
    csr_watch: PendingCsrWatch

    async def advance(self, key: ObjectKey, spec: CredentialSpec, observer: CredentialObserver) -> Outcome:
        for _ in range(MAX_STEPS):
            secret = self.reader.get(SECRETS, key)
            held = decode_data(secret)
            answer = await spec.driver.obtain(spec.wanted, held)
            self.csr_watch.track_pending(key, answer)  # before it is stored: the hub may decide meanwhile
            wanted = choose_secret_data(held, answer, owned=spec.driver.owned_keys(), extras=spec.extras)
            if wanted != held and (secret is not None or is_worth_storing(answer)):
                await self._store(key, secret, held, wanted, spec.labels)
            await observer.on_answer(answer, wanted)
            delay = self._requeue_delay(answer)
            if delay is None:
                return Done()
            if delay > timedelta(0):
                return RetryAfter(delay)
        return RetryAfter(timedelta(seconds=1))

    def release(self, key: ObjectKey) -> None:
        self.csr_watch.track_pending(key, None)

    def _requeue_delay(self, answer: ObtainResult) -> timedelta | None:
        if isinstance(answer, Pending):
            return answer.recheck
        if answer.renew_at is None:
            return None  # the agent does not renew it: only an event changes anything
        return max(answer.renew_at - self.clock.now(), timedelta(seconds=1))

    async def _store(
        self, key: ObjectKey, secret: Object | None, held: SecretData, wanted: SecretData, labels: Mapping[str, str]
    ) -> None:
        if secret is None:
            manifest = SECRETS.manifest(key, type="Opaque", data=encode_data(wanted))
            if labels:
                manifest["metadata"]["labels"] = dict(labels)
            await self.cluster.create(SECRETS, manifest)
            return
        patch = with_preconditions(secret, {"data": data_patch(held, wanted)})
        await self.cluster.patch(SECRETS, key, patch)


class CredentialSpec(Struct, frozen=True):
    """One credential that is kept: what is wanted, which driver obtains it, what the Secret holds beside it."""

    wanted: WantedCredential
    driver: AgentDriver
    extras: SecretExtras
    labels: Mapping[str, str] = field(default_factory=dict)


class CredentialObserver(Protocol):
    """Is notified of the results of one credential."""

    async def on_answer(self, answer: ObtainResult, data: SecretData) -> None: ...


def is_worth_storing(answer: ObtainResult) -> bool:
    """Whether a response is reason enough to make a Secret: waiting alone is not."""
    return not isinstance(answer, Pending) or bool(answer.keep)


class PendingCsrWatch:
    """Runs a cache while any credential is pending; begins with the one it is made for."""

    def __init__(self, cache: Cache, first: ObjectKey) -> None:
        self._cache = cache
        self._waiting = {first}
        self._changed = asyncio.Event()

    def track_pending(self, secret: ObjectKey, answer: ObtainResult | None) -> None:
        """Record the last result about the credential in a Secret; None when none is wanted any more."""
        if isinstance(answer, Pending):
            self._waiting.add(secret)
        else:
            self._waiting.discard(secret)
        self._changed.set()

    async def run(self) -> None:
        while True:
            async with running(self._cache.run(), "requests"):
                await self._until(waiting=False)
            await self._until(waiting=True)

    async def _until(self, *, waiting: bool) -> None:
        while bool(self._waiting) is not waiting:
            self._changed.clear()
            await self._changed.wait()


def csr_scope(cluster: str) -> WatchScope:
    return WatchScope(labels=f"{Label.CLUSTER_NAME}={cluster}")
