"""Keeps one credential valid in its Secret: obtained, renewed in time, restored when damaged."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import SECRETS
from watchword.api.sensitive import HiddenFields
from watchword.credentials.driver import (
    KUBECONFIG,
    AgentDriver,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
    WantedCredential,
)
from watchword.kube.client import Client
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import encode_kubeconfig, yaml_of
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.event_loop import running
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

CLUSTER_NAME, AGENT_NAME = "cluster-name", "agent-name"

# The names that OCM's agent uses, so that either agent can take over the other's Secret.
HUB, USER, CONTEXT, NAMESPACE = "hub", "default-auth", "default-context", "configuration"

MAX_CACHED_KUBECONFIGS = 3  # one for each driver, and one that was valid before the hub moved


def decode_data(secret: Object | None) -> dict[str, bytes]:
    """Return the Secret's content; what is not base64 is left out, as if it were missing."""
    decoded: dict[str, bytes] = {}
    for name, value in ((secret or {}).get("data") or {}).items():
        try:
            decoded[name] = binascii.a2b_base64(value or "", strict_mode=True)
        except (binascii.Error, ValueError):
            continue
    return decoded


def encode_data(data: SecretData) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in sorted(data.items())}


def hub_kubeconfig(hub: ClusterEntry, user: UserEntry, *, name: str = HUB) -> bytes:
    """Return the kubeconfig that goes with a credential; files are beside it."""
    config = Kubeconfig({name: hub}, {USER: user}, {CONTEXT: ContextEntry(name, USER, NAMESPACE)}, CONTEXT)
    return encode_kubeconfig(config)


class HubEndpointSource(Protocol):
    """Knows where the hub is reached."""

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted; `ConfigError` when that is unknown."""
        ...

    def name(self) -> str: ...


class HubKubeconfigRenderer(HiddenFields, frozen=True):
    """Writes the kubeconfigs that go with credentials, each once while the hub stays where it is."""

    hidden = ("rendered",)

    endpoint: HubEndpointSource
    rendered: list[tuple[tuple[ClusterEntry, str, UserEntry], bytes]] = field(default_factory=list)

    def for_user(self, user: UserEntry) -> bytes:
        entry, name = self.endpoint.entry(), self.endpoint.name()
        for known, text in self.rendered:
            if known == (entry, name, user):
                return text
        text = hub_kubeconfig(entry, user, name=name)
        self.rendered[:] = [((entry, name, user), text), *self.rendered[:MAX_CACHED_KUBECONFIGS]]
        return text


class SecretExtras(HiddenFields, frozen=True):
    """What a Secret holds beside the credential itself."""

    hidden = ("frame", "with_credential")

    frame: SecretData  # always as wanted
    with_credential: SecretData = field(default_factory=dict)  # as wanted once there is a credential it fits
    obsolete_keys: frozenset[str] = frozenset()  # gone once there is: the keys of drivers that served before


def choose_secret_data(
    held: SecretData, answer: ObtainResult, *, owned: frozenset[str], extras: SecretExtras
) -> dict[str, bytes]:
    """Return the content of the Secret after the driver's result.

    Keys of others stay, and a new credential replaces everything its driver owns. Until a new driver has a credential,
    that of the driver before stays usable.
    """
    if isinstance(answer, Pending):
        return {**held, **answer.keep, **extras.frame}
    gone = extras.obsolete_keys | owned if isinstance(answer, NewCredential) else extras.obsolete_keys
    kept = {name: value for name, value in held.items() if name not in gone}
    issued = answer.data if isinstance(answer, NewCredential) else {}
    wanted = {**kept, **issued, **extras.frame, **extras.with_credential}
    present, kubeconfig = held.get(KUBECONFIG, b""), wanted.get(KUBECONFIG, b"")
    if present[:1] not in {b"", b"{"} and kubeconfig and present == yaml_of(kubeconfig):
        wanted[KUBECONFIG] = present  # of OCM's agent, or of ours before it wrote JSON
    return wanted


MAX_STEPS = 4  # key, request, decision: enough for a hub that decides immediately, too few to spin


class CredentialKeeper(Struct, frozen=True, kw_only=True):
    """Takes the steps towards one credential and stores each in the Secret."""

    reader: Reader  # of this cluster
    cluster: Client  # this cluster
    clock: Clock
    csr_watch: PendingCsrWatch

    async def advance(self, key: ObjectKey, spec: CredentialSpec, on_answer: CredentialObserver) -> Outcome:
        for _ in range(MAX_STEPS):
            secret = self.reader.get(SECRETS, key)
            held = decode_data(secret)
            answer = await spec.driver.obtain(spec.wanted, held)
            self.csr_watch.track_pending(key, answer)  # before it is stored: the hub may decide meanwhile
            wanted = choose_secret_data(held, answer, owned=spec.driver.owned_keys(), extras=spec.extras)
            # Waiting alone is no reason to make a Secret.
            if wanted != held and (secret is not None or not isinstance(answer, Pending) or answer.keep):
                await self._store(key, secret, held, wanted, spec.labels)
            await on_answer(answer, wanted)
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
        changed = {name: value for name, value in wanted.items() if held.get(name) != value}
        data = {**{name: None for name in held if name not in wanted}, **encode_data(changed)}
        await self.cluster.patch(SECRETS, key, with_preconditions(secret, {"data": data}))


class CredentialSpec(Struct, frozen=True):
    """One credential that is kept: what is wanted, which driver obtains it, what the Secret holds beside it."""

    wanted: WantedCredential
    driver: AgentDriver
    extras: SecretExtras
    labels: Mapping[str, str] = field(default_factory=dict)


CredentialObserver: TypeAlias = Callable[[ObtainResult, SecretData], Awaitable[None]]
"""Is notified of the results of one credential."""


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
