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

from watchword.agent.hub_access import HubConnector
from watchword.agent.secret_data import KUBECONFIG
from watchword.drivers.interface import SecretData
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_reading import parse_kubeconfig
from watchword.kube.transport import Transport

EXTENSION = "watchword.dev/followed-from"
"""What tells, inside a kubeconfig, that the hub was followed, and from where."""

JOINING_TAKES = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Given:
    """What people said: enough to notice that they say something new."""

    server: str
    authorities: str  # the digest of their PEM

    @classmethod
    def of(cls, entry: ClusterEntry) -> Given:
        """Return what an entry says."""
        return cls(entry.server, sha256(entry.ca_data).hexdigest())


@dataclass(frozen=True, slots=True)
class Move:
    """Where the hub was found, starting from what people had said."""

    given: Given
    server: str
    ca_data: bytes

    def holds_for(self, given: ClusterEntry) -> bool:
        """Whether people have said nothing new since; without a bootstrap kubeconfig they cannot."""
        return Given.of(given) == self.given or (given.server, given.ca_data) == (self.server, self.ca_data)

    def applied_to(self, given: ClusterEntry) -> ClusterEntry:
        """Return the entry by which the hub is reached now."""
        note = {"server": self.given.server, "authorities": self.given.authorities}
        rest = {**given.rest, "extensions": [{"name": EXTENSION, "extension": note}]}
        return replace(given, server=self.server, ca_data=self.ca_data, ca_file=None, rest=rest)


@dataclass
class Whereabouts:
    """A connector that knows where the hub has moved; a restart finds it in the Secret's kubeconfig."""

    inner: HubConnector
    move: Move | None = None

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted at this moment; `ConfigError` when nothing says so."""
        given = self.inner.entry()
        return self.move.applied_to(given) if self.move is not None and self.move.holds_for(given) else given

    def can_join(self) -> bool:
        """Whether there is a bootstrap credential to try."""
        return self.inner.can_join()

    def joining(self) -> Transport:
        """Return a transport as a joining cluster, to where people say the hub is."""
        return self.inner.joining()

    def own(self, data: SecretData) -> Transport:
        """Return a transport as this very cluster."""
        transport = self.inner.own(data)
        if self.move is None:
            with contextlib.suppress(ConfigError):
                self.move = read_move(parse_kubeconfig(data.get(KUBECONFIG, b"")).choose().cluster)
        return transport

    def found(self, server: str, ca_data: bytes) -> bool:
        """Take note of where the hub is now; returns whether that is any news."""
        present, given = self.entry(), self.inner.entry()
        if (server, ca_data) == (present.server, present.ca_data):
            return False
        known = self.move is not None and self.move.holds_for(given)
        self.move = Move(self.move.given if self.move is not None and known else Given.of(given), server, ca_data)
        return True


def following(hub: Whereabouts, random: Random) -> Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]:
    """Return what follows a hub over sockets: begun, and imported, when the haste of joining is over."""

    async def follow(doubted: asyncio.Event, moved: Callable[[], None]) -> None:
        await asyncio.sleep(JOINING_TAKES.total_seconds())
        from watchword.agent.hub_follower import HubFollower  # noqa: PLC0415 - as this function says
        from watchword.discovery.dialing import HttpsDialer  # noqa: PLC0415 - same

        await HubFollower(hub, HttpsDialer(), random).run(doubted, moved)

    return follow


def read_move(entry: ClusterEntry) -> Move | None:
    """Return how the hub came to be reached this way; None when it was not followed."""
    note = _note(entry)
    return Move(Given(note["server"], note["authorities"]), entry.server, entry.ca_data) if note else None


def origin_of(entry: ClusterEntry) -> str:
    """Return the address by which a hub was first known: it stays the same hub wherever it moves."""
    note = _note(entry)
    return note["server"] if note else entry.server


def _note(entry: ClusterEntry) -> dict[str, str]:
    rows: Any = entry.rest.get("extensions")
    for row in rows if isinstance(rows, list) else ():
        note = row.get("extension") if isinstance(row, Mapping) and row.get("name") == EXTENSION else None
        if isinstance(note, Mapping) and isinstance(note.get("server"), str):
            return {"server": note["server"], "authorities": str(note.get("authorities") or "")}
    return {}
