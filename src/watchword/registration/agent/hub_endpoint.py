"""Knows where the hub is: as the agent's Secret records it, and as the bootstrap kubeconfig configures it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import asdict, replace

from watchword.api.bootstrap import EXTENSION_ENDPOINTS
from watchword.api.meta import list_at, mapping_at, rows_at
from watchword.credentials.credential_secret import HUB
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.discovery.cluster_info import (
    ClusterInfo,
    PublishedClusterInfo,
    fetch_cluster_info,
    is_answering,
    read_cluster_info,
)
from watchword.discovery.discover import ONE_TRY, ClientFactory
from watchword.discovery.errors import ClusterInfoRefused
from watchword.kube.client import Client
from watchword.kube.connect import endpoint_of, make_client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.errors import ApiStatusError, ConfigError, KubeError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import PkiError
from watchword.registration.driver import HubConnector, bootstrap_credential_of

EXTENSION = "watchword.dev/followed-from"
"""Names, inside a kubeconfig, the configured address and authorities from which a hub was followed."""


class ConfiguredEndpoint(Struct, frozen=True):
    """What an administrator configured: enough to notice a change."""

    server: str
    authorities: str  # the digest of their PEM

    @classmethod
    def of(cls, entry: ClusterEntry) -> ConfiguredEndpoint:
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
        """Return the entry of the bootstrap kubeconfig when an administrator has changed it since, otherwise None."""
        configured, current = self.configured(), self.current
        if configured is None or current is None:
            return None
        is_known = ConfiguredEndpoint.of(configured) in (_origin(current), ConfiguredEndpoint.of(current))
        return None if is_known and _route(configured) == _route(current) else configured

    def adopt(self, entry: ClusterEntry) -> None:
        self.current = entry

    def record_move(self, server: str, ca_data: bytes, endpoints: tuple[str, ...] = ()) -> bool:
        """Record where the hub is now, and its other addresses; return whether anything changed."""
        present = self.entry()
        others = tuple(dict.fromkeys(endpoints)) or (server,)
        is_moved = (server, ca_data) != (present.server, present.ca_data)
        if not is_moved and others == known_servers(present):
            return False
        origin = _origin(present) or (ConfiguredEndpoint.of(present) if is_moved else None)
        notes: dict[str, Any] = {EXTENSION: asdict(origin)} if origin is not None else {}
        if others != (server,):
            notes[EXTENSION_ENDPOINTS] = {"servers": list(others)}
        extensions = [{"name": name, "extension": note} for name, note in notes.items()]
        rest = {name: value for name, value in present.rest.items() if name != "extensions"}
        self.current = replace(
            present,
            server=server,
            ca_data=ca_data,
            ca_file=None,
            rest={**rest, "extensions": extensions} if extensions else rest,
        )
        return True


def original_server(entry: ClusterEntry) -> str:
    """Return the address by which a hub was first known: it stays the same hub wherever it moves."""
    origin = _origin(entry)
    return origin.server if origin is not None else entry.server


def known_servers(entry: ClusterEntry) -> tuple[str, ...]:
    """Return every address that the hub published, as the entry records them; at least the one in use."""
    rows = list_at(_extension(entry, EXTENSION_ENDPOINTS), "servers")
    return tuple(dict.fromkeys(row for row in rows if isinstance(row, str))) or (entry.server,)


def _route(entry: ClusterEntry) -> tuple[str, str, bool]:
    return entry.proxy_url, entry.tls_server_name, entry.insecure


def _origin(entry: ClusterEntry) -> ConfiguredEndpoint | None:
    note = _extension(entry, EXTENSION)
    server = note.get("server")
    return ConfiguredEndpoint(server, str(note.get("authorities") or "")) if isinstance(server, str) else None


def _extension(entry: ClusterEntry, name: str) -> Mapping[str, Any]:
    rows = rows_at(entry.rest, "extensions")
    return next((mapping_at(row, "extension") for row in rows if row.get("name") == name), {})


class RefreshResult(StrEnum):
    """What became of the known address and authorities of the hub."""

    CURRENT = "Current"  # the cluster publishes what we know
    UPDATED = "Updated"  # it published something newer, and that works
    KEPT = "Kept"  # it publishes nothing usable, or something that does not work (yet): ours stays
    LOST = "Lost"  # no address responds in a way that can be trusted


class ClusterInfoRefresher(Struct):
    """The ClusterInfo of one client, followed for as long as it runs.

    A new one is trusted only when it came through an authority of the old one, and it replaces the old one only
    after it has been seen to work. An address that works is kept, whether it is published or not: an
    administrator may have chosen it. The others are used when it fails.
    """

    info: ClusterInfo
    address: str  # in use
    client_factory: ClientFactory

    async def refresh(self) -> RefreshResult:
        """Read the published endpoint once: called at intervals, and after a failed connection."""
        reached = False
        for server in dict.fromkeys((self.address, *self.info.endpoints)):
            try:
                published = await self._read(server, self.info)
            except ApiStatusError:  # it proved itself, and shows no cluster-info
                reached = True
            except KubeError:
                continue
            else:
                return await self._consider(server, published)
        return RefreshResult.KEPT if reached else RefreshResult.LOST

    async def _consider(self, server: str, published: PublishedClusterInfo) -> RefreshResult:
        try:
            candidate = read_cluster_info(published.text)
        except ClusterInfoRefused:
            return RefreshResult.KEPT
        working: str | None = server
        if candidate != self.info:
            working = await self._working_address(candidate, published)
        elif server == self.address:
            return RefreshResult.CURRENT
        if working is None:
            return RefreshResult.KEPT
        self.info, self.address = candidate, working
        return RefreshResult.UPDATED

    async def _working_address(self, candidate: ClusterInfo, published: PublishedClusterInfo) -> str | None:
        for server in dict.fromkeys((self.address, *candidate.endpoints)):
            try:
                again = await self._read(server, candidate)
            except KubeError:
                continue
            if again.text == published.text:
                return server
        return None

    async def _read(self, server: str, info: ClusterInfo) -> PublishedClusterInfo:
        client = self.client_factory.verified(server, info.ca_bundle)
        try:
            return await fetch_cluster_info(client)
        finally:
            await client.close()


class HubEndpointMonitor(Struct, kw_only=True):
    """Looks for the hub at every address that is known; shows no credential anywhere."""

    endpoint: HubEndpoint
    client_factory: ClientFactory
    _cluster_info: ClusterInfoRefresher | None = None

    async def check_configuration(self) -> bool:
        """Adopt a bootstrap kubeconfig that changed, once its server proved itself; return whether it did."""
        return await self._adopt_if_proved(self.endpoint.new_configuration())

    async def check_published(self) -> bool:
        """Look once at every known address; return whether another endpoint, or more of them, are recorded."""
        fresh = self._current_cluster_info()
        if fresh is None:
            return False
        result = await fresh.refresh()
        if result is RefreshResult.LOST:  # it may be back where it was first configured
            configured, current = self.endpoint.configured(), self.endpoint.current
            is_other = configured is not None and current is not None and configured.server != current.server
            return await self._adopt_if_proved(configured if is_other else None)
        if result is not RefreshResult.UPDATED:
            return False
        known = self.endpoint.entry().ca_data
        same = frozenset(split_bundle(known)) == frozenset(fresh.info.authorities)
        return self.endpoint.record_move(fresh.address, known if same else fresh.info.ca_bundle, fresh.info.endpoints)

    async def _adopt_if_proved(self, entry: ClusterEntry | None) -> bool:
        if entry is None or not await self._answers(entry):
            return False
        self.endpoint.adopt(entry)
        structlog.get_logger("watchword.registration.agent").info(
            "the bootstrap kubeconfig's address is used", server=entry.server
        )
        return True

    async def _answers(self, entry: ClusterEntry) -> bool:
        try:
            client = self._client(entry)
        except ConfigError:
            return False
        try:
            return await is_answering(client)
        finally:
            await client.close()

    def _client(self, entry: ClusterEntry) -> Client:
        if is_followable(entry):
            return self.client_factory.verified(entry.server, entry.ca_data)
        return make_client(endpoint_of(entry), FixedCredential(Credential()), retry=ONE_TRY)

    def _current_cluster_info(self) -> ClusterInfoRefresher | None:
        """Return what is known of the hub, anew when the endpoint changed; None when the hub is not followed."""
        try:
            entry = self.endpoint.entry()
            if not is_followable(entry):
                return None
            info = ClusterInfo(known_servers(entry), split_bundle(entry.ca_data))
        except (ConfigError, PkiError):
            return None
        fresh = self._cluster_info
        authorities = frozenset(info.authorities)
        if fresh is None or fresh.address != entry.server or frozenset(fresh.info.authorities) != authorities:
            fresh = self._cluster_info = ClusterInfoRefresher(info, entry.server, self.client_factory)
        return fresh


def is_followable(entry: ClusterEntry) -> bool:
    """Whether a hub can be followed: not through a proxy, nor under a name or a trust that was arranged."""
    return bool(entry.ca_data) and not (entry.insecure or entry.proxy_url or entry.tls_server_name)
