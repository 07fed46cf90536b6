"""Chooses the credential with which the agent speaks to the hub at each moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Protocol

from watchword._structlog import structlog
from watchword.agent.hub_connection import HubConnection
from watchword.api.conditions import is_true
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.drivers.interface import Answer, Issued, Kept, Pending, SecretData
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.transport import Transport
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Bell, Done, Outcome, Reader, RetryAfter


class HubConnector(Protocol):
    """Makes transports to one hub."""

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted; `ConfigError` when nothing says so."""
        ...

    def can_join(self) -> bool:
        """Whether there is a bootstrap credential to try."""
        ...

    def joining(self) -> Transport:
        """Return a transport as a joining cluster; `ConfigError` when there is no bootstrap credential."""
        ...

    def own(self, data: SecretData) -> Transport:
        """Return a transport as this very cluster, from the content of its Secret."""
        ...


class Use(Enum):
    """Which credential to use."""

    OWN = auto()
    JOINING = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Situation:
    """What the choice depends on."""

    own_until: datetime | None  # None: no credential of one's own
    accepted: bool | None  # None: the hub has not been heard yet
    can_join: bool


def choose_use(situation: Situation, *, now: datetime) -> Use:
    """Choose one's own credential once it opens doors, and fall back to joining when it has expired.

    Before acceptance the own certificate may not even look at the cluster, so the hub is watched as a joining
    cluster until it says yes. A hub not heard yet is first approached with what worked before the restart.
    """
    valid = situation.own_until is not None and now < situation.own_until
    if valid and (situation.accepted is not False or not situation.can_join):
        return Use.OWN
    return Use.JOINING if situation.can_join else Use.NONE


@dataclass
class HubAccess:
    """Reconciles this cluster's own ManagedCluster on the hub; told of every answer about the credential."""

    connection: HubConnection
    connector: HubConnector
    reader: Reader  # of the hub
    cluster_name: str
    clock: Clock
    held: Issued | Kept | None = None  # what was last answered about the credential in use
    refusal: Pending | None = None  # the hub's last no, until a yes
    used: Use = Use.NONE
    news: Bell = field(default_factory=Bell)  # rung when there is something new to report, or another way to report it
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # set once the cluster has joined, as itself
    _data: SecretData = field(default_factory=dict, repr=False)
    _shown: SecretData = field(default_factory=dict, repr=False)  # of which the transport in use was made
    _settling: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def credential_changed(self, _key: ObjectKey, answer: Answer, data: SecretData) -> None:
        """Take note of what the Secret of the cluster's credential holds now."""
        if isinstance(answer, Issued | Kept):
            is_news = dict(data) != dict(self._data) or self.refusal is not None
            self.held, self.refusal, self._data = answer, None, data
            await self.settle()
        else:
            is_news = answer.failed and answer != self.refusal
            self.refusal = answer if answer.failed else self.refusal
        if is_news:
            self.news.ring(ObjectKey.cluster(self.cluster_name))

    @property
    def own_until(self) -> datetime | None:
        """Until when the credential of one's own is good; None without one."""
        return None if self.held is None else self.held.expires_at

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Use the right credential, and look again when the own one expires."""
        await self.settle()
        if key.name == self.cluster_name and self.own_until is not None and self.own_until > self.clock.now():
            return RetryAfter(self.own_until - self.clock.now())
        return Done()

    def is_itself(self) -> bool:
        """Whether the hub is spoken to as this very cluster: what a cluster says of itself, it says so."""
        return self.connection.is_own

    async def settle(self) -> None:
        """Bring the connection in line with the choice."""
        async with self._settling:  # whoever comes meanwhile finds it done
            situation = self._situation()
            use = choose_use(situation, now=self.clock.now())
            # Compared, not remembered: the answer to the write that stored it may have been lost.
            if use != self.used or (use is Use.OWN and dict(self._data) != dict(self._shown)):
                await self._switch(use)
        if self.used is Use.OWN and situation.accepted and self._has_joined():
            self.ready.set()

    def _has_joined(self) -> bool:
        """Whether the hub was told so: then the own credential opens doors, and what matters most is done."""
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.cluster_name))
        return found is not None and is_true(found, ConditionType.JOINED)

    async def _switch(self, use: Use) -> None:
        log = structlog.get_logger("watchword.agent")
        try:
            if use is Use.OWN:
                data = self._data
                await self.connection.use(self.connector.own(data), own=True)
                self._shown = data
            elif use is Use.JOINING:
                await self.connection.use(self.connector.joining())
        except ConfigError as trouble:
            log.warning("the credential for the hub cannot be used", error=str(trouble))
            return
        self.used = use
        log.info("speaking to the hub", credential=use.name.lower(), cluster=self.cluster_name)
        self.news.ring(ObjectKey.cluster(self.cluster_name))

    def _situation(self) -> Situation:
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.cluster_name))
        accepted = None if found is None else is_true(found, ConditionType.HUB_ACCEPTED)
        if accepted is None and self.used is Use.JOINING:
            accepted = False  # the hub was asked as a joining cluster and knows nothing of us yet
        return Situation(self.own_until, accepted, self.connector.can_join())
