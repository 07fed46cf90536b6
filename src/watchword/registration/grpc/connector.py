"""Reaches a hub through its gRPC server: by the bootstrap `config.yaml` at first, by the Secret's own later."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Self

from msgspec import Struct

from watchword.api.bootstrap import TOKEN_PATTERN, bootstrap_user
from watchword.api.sensitive import Sensitive
from watchword.credentials.certificates.agent import CERTIFICATE, KEY
from watchword.credentials.driver import ENDPOINT_CONFIG, KUBECONFIG, SecretData
from watchword.kube.client import Client
from watchword.kube.credentials import Credential
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.tls import ClientCertificate
from watchword.kube.transport import Transport
from watchword.registration.driver import BootstrapCredential, ConnectorContext, KubeconfigConnector
from watchword.registration.grpc.client import channel
from watchword.registration.grpc.client.object_store import ObjectStores
from watchword.registration.grpc.client.transport import GrpcTransport
from watchword.registration.grpc.config import GrpcConfig, GrpcEndpoint, hub_config, parse_config, read_token


class GrpcConnector(Struct):
    """Connects to the gRPC server; the kubeconfig beside `config.yaml` tells where add-ons find the API server."""

    cluster: str
    api_server: KubeconfigConnector
    endpoint: GrpcEndpoint | None = None  # the one in use; None: nothing is recorded yet
    _stores: tuple[GrpcEndpoint, ObjectStores] | None = None  # what that one has sent

    @classmethod
    def make(cls, context: ConnectorContext) -> Self:
        return cls(context.cluster, KubeconfigConnector(context.bootstrap))

    def entry(self) -> ClusterEntry:
        return self.api_server.entry()

    def has_bootstrap_credential(self) -> bool:
        return self._path is not None and self._path.is_file()

    def bootstrap_credential(self) -> BootstrapCredential | None:
        kubeconfig = self.api_server.bootstrap_credential() or BootstrapCredential("", "hub")
        try:
            content, config = self._read()
            token = TOKEN_PATTERN.fullmatch(read_token(config).reveal())
        except ConfigError:
            return None
        requester = bootstrap_user(token.group(1)) if token is not None else ""
        digest = sha256(content + kubeconfig.digest.encode()).hexdigest()
        return BootstrapCredential(digest, kubeconfig.cluster_name, requester)

    def joining(self) -> Transport:
        _, config = self._read()
        return self._connect(config.endpoint, channel.GrpcCredential(token=read_token(config)))

    def own(self, data: SecretData) -> Transport:
        if data.get(KUBECONFIG):
            self.api_server.known = parse_kubeconfig(data[KUBECONFIG]).choose().cluster
        endpoint = parse_config(data.get(ENDPOINT_CONFIG, b"")).endpoint
        certificate = ClientCertificate(data.get(CERTIFICATE, b""), Sensitive(data.get(KEY, b"")))
        return self._connect(endpoint, channel.GrpcCredential(certificate=certificate))

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client:
        """Return a client of the hub's API server, where add-ons use their credentials."""
        return self.api_server.with_credential(hub, credential)

    def _connect(self, endpoint: GrpcEndpoint, credential: channel.GrpcCredential) -> Transport:
        if self._stores is None or self._stores[0] != endpoint:  # another server may be that of another hub
            self._stores = endpoint, ObjectStores()
        return GrpcTransport(channel.EventChannel(endpoint, credential, cluster=self.cluster), self._stores[1])

    def restore_endpoint(self, data: SecretData) -> None:
        """Continue with the endpoint in the Secret; where there is none, with the configured one."""
        try:
            self.endpoint = parse_config(data[ENDPOINT_CONFIG]).endpoint
        except (KeyError, ConfigError):
            self.endpoint = self._configured()

    def endpoint_data(self) -> SecretData:
        endpoint = self.endpoint or self._configured()
        return {} if endpoint is None else {ENDPOINT_CONFIG: hub_config(endpoint, CERTIFICATE, KEY)}

    async def check_endpoint(self) -> bool:
        """Adopt a bootstrap configuration that changed, once its server proved itself; return whether it did."""
        configured = self._configured()
        if configured is None or configured == self.endpoint:
            return False
        if self.endpoint is not None and await find_server_problem(configured):
            return False
        self.endpoint = configured
        return True

    def _configured(self) -> GrpcEndpoint | None:
        try:
            return self._read()[1].endpoint
        except ConfigError:
            return None

    @property
    def _path(self) -> Path | None:
        kubeconfig = self.api_server.bootstrap
        return None if kubeconfig is None else kubeconfig.parent / ENDPOINT_CONFIG

    def _read(self) -> tuple[bytes, GrpcConfig]:
        """Return the bootstrap configuration and its content; `ConfigError` when there is none, or it is damaged."""
        path = self._path
        if path is None:
            raise ConfigError("there is no bootstrap configuration of a gRPC server: give the agent one to join with")
        try:
            content = path.read_bytes()
        except OSError as cause:
            raise ConfigError(f"{path} cannot be read: {cause.strerror}") from cause
        return content, parse_config(content, path.parent)


async def find_server_problem(endpoint: GrpcEndpoint) -> str:
    """Return why no server answers there with a certificate of the endpoint's authorities; shows no credential."""
    host, port = endpoint.address
    try:
        context = channel.make_tls_context(endpoint, None)
        async with asyncio.timeout(channel.CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError, ConfigError) as cause:
        return str(channel.to_kube_error(cause, endpoint.url, with_certificate=False))
    protocol = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.transport.abort()
    return "" if protocol == "h2" else f"{endpoint.url} answers, and is not a gRPC server"
