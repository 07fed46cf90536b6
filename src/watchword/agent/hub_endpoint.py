"""Knows where the hub is: as the agent's Secret records it, and as the bootstrap kubeconfig configures it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from watchword.agent.secret_data import HUB
from watchword.api.bootstrap import EXTENSION_ENDPOINTS
from watchword.drivers.hub_connector import HubConnector, bootstrap_credential_of
from watchword.drivers.interface import KUBECONFIG, SecretData
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_parser import parse_kubeconfig

EXTENSION = "watchword.dev/followed-from"
"""Names, inside a kubeconfig, the configured address and authorities from which a hub was followed."""


class ConfiguredEndpoint(Struct, frozen=True):
    """What an administrator configured: enough to notice a change."""

    server: str
    authorities: str  # the digest of their PEM

    @classmethod
    def of(cls, entry: ClusterEntry) -> ConfiguredEndpoint:
        """Return the relevant content of an entry."""
        return cls(entry.server, sha256(entry.ca_data).hexdigest())


class HubEndpoint(Struct):
    """The endpoint in use. It changes only by `adopt` and `record_move`, after the other endpoint was seen to work."""

    connector: HubConnector
    current: ClusterEntry | None = None  # None: nothing is recorded yet
    _recorded_name: str = ""

    def restore(self, data: SecretData) -> None:
        """Continue with the endpoint in the Secret's kubeconfig; a damaged kubeconfig records nothing."""
        with contextlib.suppress(ConfigError):
            choice = parse_kubeconfig(data.get(KUBECONFIG, b"")).choose()
            self.current, self._recorded_name = choice.cluster, choice.cluster_name

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted now; `ConfigError` when that is unknown."""
        return self.current if self.current is not None else self.connector.entry()

    def name(self) -> str:
        """Return the name of the hub's entry: that of the bootstrap kubeconfig, by which OCM's agent knows its hub."""
        found = bootstrap_credential_of(self.connector)
        return found.cluster_name if found is not None else self._recorded_name or HUB

    def configured(self) -> ClusterEntry | None:
        """Return the entry of the bootstrap kubeconfig; None when there is none, or none that can be read."""
        if not self.connector.has_bootstrap_credential():
            return None
        try:
            return self.connector.entry()
        except ConfigError:
            return None

    def new_configuration(self) -> ClusterEntry | None:
        """Return the entry of the bootstrap kubeconfig if it changed since the current endpoint was recorded."""
        configured = self.configured()
        if configured is None or self.current is None or not is_new_configuration(self.current, configured):
            return None
        return configured

    def adopt(self, entry: ClusterEntry) -> None:
        """Use a configured endpoint from now on."""
        self.current = entry

    def record_move(self, server: str, ca_data: bytes, endpoints: tuple[str, ...] = ()) -> bool:
        """Record where the hub is now, and its other addresses; return whether anything changed."""
        present = self.entry()
        others = tuple(dict.fromkeys(endpoints)) or (server,)
        is_moved = (server, ca_data) != (present.server, present.ca_data)
        if not is_moved and others == known_servers(present):
            return False
        origin = _origin(present) or (ConfiguredEndpoint.of(present) if is_moved else None)
        extensions = [*_followed_from_extension(origin), *_endpoints_extension(server, others)]
        rest = {name: value for name, value in present.rest.items() if name != "extensions"}
        self.current = replace(
            present,
            server=server,
            ca_data=ca_data,
            ca_file=None,
            rest={**rest, "extensions": extensions} if extensions else rest,
        )
        return True


def is_new_configuration(current: ClusterEntry, configured: ClusterEntry) -> bool:
    """Whether the configuration differs from the endpoint in use and from the one that it was followed from."""
    if _route(configured) != _route(current):
        return True
    said = ConfiguredEndpoint.of(configured)
    return said not in (_origin(current), ConfiguredEndpoint.of(current))


def original_server(entry: ClusterEntry) -> str:
    """Return the address by which a hub was first known: it stays the same hub wherever it moves."""
    origin = _origin(entry)
    return origin.server if origin is not None else entry.server


def known_servers(entry: ClusterEntry) -> tuple[str, ...]:
    """Return every address that the hub published, as the entry records them; at least the one in use."""
    servers = _extension(entry, EXTENSION_ENDPOINTS).get("servers")
    rows = servers if isinstance(servers, list) else []
    return tuple(dict.fromkeys(row for row in rows if isinstance(row, str))) or (entry.server,)


def _route(entry: ClusterEntry) -> tuple[str, str, bool]:
    return entry.proxy_url, entry.tls_server_name, entry.insecure


def _origin(entry: ClusterEntry) -> ConfiguredEndpoint | None:
    note = _extension(entry, EXTENSION)
    server = note.get("server")
    return ConfiguredEndpoint(server, str(note.get("authorities") or "")) if isinstance(server, str) else None


def _followed_from_extension(origin: ConfiguredEndpoint | None) -> list[dict[str, Any]]:
    if origin is None:
        return []
    return [{"name": EXTENSION, "extension": {"server": origin.server, "authorities": origin.authorities}}]


def _endpoints_extension(server: str, servers: tuple[str, ...]) -> list[dict[str, Any]]:
    if servers == (server,):
        return []
    return [{"name": EXTENSION_ENDPOINTS, "extension": {"servers": list(servers)}}]


def _extension(entry: ClusterEntry, name: str) -> Mapping[str, Any]:
    rows: Any = entry.rest.get("extensions")
    for row in rows if isinstance(rows, list) else ():
        note = row.get("extension") if isinstance(row, Mapping) and row.get("name") == name else None
        if isinstance(note, Mapping):
            return note
    return {}
