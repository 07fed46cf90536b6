"""Finds the hub again when it moves or changes its certificate authority.

Three places name an address: the agent's Secret, the bootstrap kubeconfig and the hub's own kube-public/cluster-info.
Another address is used only after the server there proved itself: by the authorities of the bootstrap kubeconfig that
names it, or, for what the hub publishes, by an authority that is trusted already.
"""

from __future__ import annotations

from msgspec import Struct

from watchword._structlog import structlog
from watchword.agent.hub_endpoint import HubEndpoint, known_servers
from watchword.discovery.client_factory import ONE_TRY, ClientFactory
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.cluster_info_refresh import ClusterInfoRefresher, RefreshResult
from watchword.discovery.published_cluster_info import is_answering
from watchword.kube.client import Client
from watchword.kube.connect import endpoint_of, make_client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import PkiError


class HubEndpointMonitor(Struct, kw_only=True):
    """Looks for the hub at every address that is known; shows no credential anywhere."""

    endpoint: HubEndpoint
    client_factory: ClientFactory
    _cluster_info: ClusterInfoRefresher | None = None

    async def check(self) -> bool:
        """Look once at every known address; return whether another endpoint, or more of them, are recorded."""
        return await self.check_configuration() or await self._check_published()

    async def check_configuration(self) -> bool:
        """Adopt a bootstrap kubeconfig that changed, once its server proved itself; return whether it did."""
        return await self._adopt_if_proved(self.endpoint.new_configuration())

    async def _check_published(self) -> bool:
        fresh = self._current_cluster_info()
        if fresh is None:
            return False
        result = await fresh.refresh()
        if result is RefreshResult.LOST:  # it may be back where it was first configured
            return await self._adopt_if_proved(self._other_configuration())
        if result is not RefreshResult.UPDATED:
            return False
        known = self.endpoint.entry().ca_data
        same = frozenset(split_bundle(known)) == frozenset(fresh.info.authorities)
        return self.endpoint.record_move(fresh.address, known if same else fresh.info.ca_bundle, fresh.info.endpoints)

    async def _adopt_if_proved(self, entry: ClusterEntry | None) -> bool:
        if entry is None or not await self._answers(entry):
            return False
        self.endpoint.adopt(entry)
        structlog.get_logger("watchword.agent").info("the bootstrap kubeconfig's address is used", server=entry.server)
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

    def _other_configuration(self) -> ClusterEntry | None:
        configured, current = self.endpoint.configured(), self.endpoint.current
        if configured is None or current is None or configured.server == current.server:
            return None
        return configured

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
        if fresh is None or not _is_about(fresh, entry.server, info):
            fresh = self._cluster_info = ClusterInfoRefresher(info, entry.server, self.client_factory)
        return fresh


def is_followable(entry: ClusterEntry) -> bool:
    """Whether a hub can be followed: not through a proxy, nor under a name or a trust that was arranged."""
    return bool(entry.ca_data) and not (entry.insecure or entry.proxy_url or entry.tls_server_name)


def _is_about(fresh: ClusterInfoRefresher, address: str, info: ClusterInfo) -> bool:
    return fresh.address == address and frozenset(fresh.info.authorities) == frozenset(info.authorities)
