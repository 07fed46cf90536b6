"""Knows where the hub is: as people say, or as the hub itself has published since they did."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from random import Random
from typing import Any

from watchword.agent.hub_session import HubConnector
from watchword.agent.secret_data import KUBECONFIG
from watchword.drivers.interface import SecretData
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_parser import parse_kubeconfig
from watchword.kube.transport import Transport

EXTENSION = "watchword.dev/followed-from"
"""What tells, inside a kubeconfig, that the hub was followed, and from where."""

START_DELAY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ConfiguredEndpoint:
    """What people said: enough to notice that they say something new."""

    server: str
    authorities: str  # the digest of their PEM

    @classmethod
    def of(cls, entry: ClusterEntry) -> ConfiguredEndpoint:
        """Return what an entry says."""
        return cls(entry.server, sha256(entry.ca_data).hexdigest())


@dataclass(frozen=True, slots=True)
class EndpointMove:
    """Where the hub was record_move, starting from what people had said."""

    configured: ConfiguredEndpoint
    server: str
    ca_data: bytes

    def is_valid_for(self, configured: ClusterEntry) -> bool:
        """Whether people have said nothing new since; without a bootstrap kubeconfig they cannot."""
        return ConfiguredEndpoint.of(configured) == self.configured or (configured.server, configured.ca_data) == (
            self.server,
            self.ca_data,
        )

    def applied_to(self, configured: ClusterEntry) -> ClusterEntry:
        """Return the entry by which the hub is reached now."""
        note = {"server": self.configured.server, "authorities": self.configured.authorities}
        rest = {**configured.rest, "extensions": [{"name": EXTENSION, "extension": note}]}
        return replace(configured, server=self.server, ca_data=self.ca_data, ca_file=None, rest=rest)


@dataclass
class HubEndpoint:
    """A connector that knows where the hub has endpoint_changed; a restart finds it in the Secret's kubeconfig."""

    inner: HubConnector
    endpoint_move: EndpointMove | None = None

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted at this moment; `ConfigError` when nothing says so."""
        configured = self.inner.entry()
        return (
            self.endpoint_move.applied_to(configured)
            if self.endpoint_move is not None and self.endpoint_move.is_valid_for(configured)
            else configured
        )

    def has_bootstrap_credential(self) -> bool:
        """Whether there is a bootstrap credential to try."""
        return self.inner.has_bootstrap_credential()

    def joining(self) -> Transport:
        """Return a transport as a joining cluster, to where people say the hub is."""
        return self.inner.joining()

    def own(self, data: SecretData) -> Transport:
        """Return a transport as this very cluster."""
        transport = self.inner.own(data)
        if self.endpoint_move is None:
            with contextlib.suppress(ConfigError):
                self.endpoint_move = read_endpoint_move(parse_kubeconfig(data.get(KUBECONFIG, b"")).choose().cluster)
        return transport

    def record_move(self, server: str, ca_data: bytes) -> bool:
        """Take note of where the hub is now; returns whether that is any news."""
        present, configured = self.entry(), self.inner.entry()
        if (server, ca_data) == (present.server, present.ca_data):
            return False
        known = self.endpoint_move is not None and self.endpoint_move.is_valid_for(configured)
        self.endpoint_move = EndpointMove(
            self.endpoint_move.configured
            if self.endpoint_move is not None and known
            else ConfiguredEndpoint.of(configured),
            server,
            ca_data,
        )
        return True


def endpoint_monitor_job(
    hub: HubEndpoint, random: Random
) -> Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]:
    """Return what follows a hub over sockets: begun, and imported, when the haste of joining is over."""

    async def follow(unreachable: asyncio.Event, endpoint_changed: Callable[[], None]) -> None:
        await asyncio.sleep(START_DELAY.total_seconds())
        from watchword.agent.hub_endpoint_monitor import HubEndpointMonitor
        from watchword.discovery.client_factory import HttpsClientFactory

        await HubEndpointMonitor(hub, HttpsClientFactory(), random).run(unreachable, endpoint_changed)

    return follow


def read_endpoint_move(entry: ClusterEntry) -> EndpointMove | None:
    """Return how the hub came to be reached this way; None when it was not followed."""
    note = _followed_from(entry)
    return (
        EndpointMove(ConfiguredEndpoint(note["server"], note["authorities"]), entry.server, entry.ca_data)
        if note
        else None
    )


def original_server(entry: ClusterEntry) -> str:
    """Return the address by which a hub was first known: it stays the same hub wherever it moves."""
    note = _followed_from(entry)
    return note["server"] if note else entry.server


def _followed_from(entry: ClusterEntry) -> dict[str, str]:
    rows: Any = entry.rest.get("extensions")
    for row in rows if isinstance(rows, list) else ():
        note = row.get("extension") if isinstance(row, Mapping) and row.get("name") == EXTENSION else None
        if isinstance(note, Mapping) and isinstance(note.get("server"), str):
            return {"server": note["server"], "authorities": str(note.get("authorities") or "")}
    return {}
