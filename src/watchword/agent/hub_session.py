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
from watchword.drivers.interface import NewCredential, ObtainResult, Pending, SecretData, ValidCredential
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.transport import Transport
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter, TriggerSource


class HubConnector(Protocol):
    """Makes transports to one hub."""

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted; `ConfigError` when nothing says so."""
        ...

    def has_bootstrap_credential(self) -> bool:
        """Whether there is a bootstrap credential to try."""
        ...

    def joining(self) -> Transport:
        """Return a transport as a joining cluster; `ConfigError` when there is no bootstrap credential."""
        ...

    def own(self, data: SecretData) -> Transport:
        """Return a transport as this very cluster, from the content of its Secret."""
        ...


class ActiveCredential(Enum):
    """Which credential to use."""

    OWN = auto()
    BOOTSTRAP = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class CredentialFacts:
    """What the choice depends on."""

    own_until: datetime | None  # None: no credential of one's own
    accepted: bool | None  # None: the hub has not been heard yet
    has_bootstrap_credential: bool


def choose_active_credential(facts: CredentialFacts, *, now: datetime) -> ActiveCredential:
    """Choose one's own credential once it opens doors, and fall back to joining when it has expired.

    Before acceptance the own certificate may not even look at the cluster, so the hub is watched as a joining
    cluster until it says yes. A hub not heard yet is first approached with what worked before the restart.
    """
    valid = facts.own_until is not None and now < facts.own_until
    if valid and (facts.accepted is not False or not facts.has_bootstrap_credential):
        return ActiveCredential.OWN
    return ActiveCredential.BOOTSTRAP if facts.has_bootstrap_credential else ActiveCredential.NONE


@dataclass
class HubSession:
    """Reconciles this cluster's own ManagedCluster on the hub; told of every answer about the credential."""

    connection: HubConnection
    connector: HubConnector
    reader: Reader  # of the hub
    cluster_name: str
    clock: Clock
    held: NewCredential | ValidCredential | None = None  # what was last answered about the credential in use
    refusal: Pending | None = None  # the hub's last no, until a yes
    active_credential: ActiveCredential = ActiveCredential.NONE
    status_changed: TriggerSource = field(
        default_factory=TriggerSource
    )  # rung when there is something new to report, or another way to report it
    joined: asyncio.Event = field(default_factory=asyncio.Event)  # set once the cluster has joined, as itself
    _data: SecretData = field(default_factory=dict, repr=False)
    _data_in_use: SecretData = field(default_factory=dict, repr=False)  # of which the transport in use was made
    _selecting: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def credential_changed(self, _key: ObjectKey, answer: ObtainResult, data: SecretData) -> None:
        """Take note of what the Secret of the cluster's credential holds now."""
        if isinstance(answer, NewCredential | ValidCredential):
            is_changed = dict(data) != dict(self._data) or self.refusal is not None
            self.held, self.refusal, self._data = answer, None, data
            await self.select_credential()
        else:
            is_changed = answer.failed and answer != self.refusal
            self.refusal = answer if answer.failed else self.refusal
        if is_changed:
            self.status_changed.enqueue(ObjectKey.cluster(self.cluster_name))

    @property
    def own_until(self) -> datetime | None:
        """Until when the credential of one's own is good; None without one."""
        return None if self.held is None else self.held.expires_at

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """ActiveCredential the right credential, and look again when the own one expires."""
        await self.select_credential()
        if key.name == self.cluster_name and self.own_until is not None and self.own_until > self.clock.now():
            return RetryAfter(self.own_until - self.clock.now())
        return Done()

    def is_using_own_credential(self) -> bool:
        """Whether the hub is spoken to as this very cluster: what a cluster says of itself, it says so."""
        return self.connection.uses_own_credential

    async def select_credential(self) -> None:
        """Bring the connection in line with the choice."""
        async with self._selecting:  # whoever comes meanwhile finds it done
            facts = self._credential_facts()
            use = choose_active_credential(facts, now=self.clock.now())
            # Compared, not remembered: the answer to the write that stored it may have been lost.
            if use != self.active_credential or (
                use is ActiveCredential.OWN and dict(self._data) != dict(self._data_in_use)
            ):
                await self._switch(use)
        if self.active_credential is ActiveCredential.OWN and facts.accepted and self._has_joined():
            self.joined.set()

    def _has_joined(self) -> bool:
        """Whether the hub was told so: then the own credential opens doors, and what matters most is done."""
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.cluster_name))
        return found is not None and is_true(found, ConditionType.JOINED)

    async def _switch(self, use: ActiveCredential) -> None:
        log = structlog.get_logger("watchword.agent")
        try:
            if use is ActiveCredential.OWN:
                data = self._data
                await self.connection.use(self.connector.own(data), own=True)
                self._data_in_use = data
            elif use is ActiveCredential.BOOTSTRAP:
                await self.connection.use(self.connector.joining())
        except ConfigError as trouble:
            log.warning("the credential for the hub cannot be active_credential", error=str(trouble))
            return
        self.active_credential = use
        log.info("speaking to the hub", credential=use.name.lower(), cluster=self.cluster_name)
        self.status_changed.enqueue(ObjectKey.cluster(self.cluster_name))

    def _credential_facts(self) -> CredentialFacts:
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.cluster_name))
        accepted = None if found is None else is_true(found, ConditionType.HUB_ACCEPTED)
        if accepted is None and self.active_credential is ActiveCredential.BOOTSTRAP:
            accepted = False  # the hub was asked as a joining cluster and knows nothing of us yet
        return CredentialFacts(self.own_until, accepted, self.connector.has_bootstrap_credential())
