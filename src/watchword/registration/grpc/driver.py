"""Clusters register and work over gRPC, with CloudEvents, where the hub's API server is not reachable."""

from collections.abc import Mapping

from msgspec.structs import replace

from watchword.api.names import GRPC_SIGNER
from watchword.api.sensitive import Sensitive
from watchword.credentials.certificates.agent import read_endpoint_certificate, read_pending_key
from watchword.credentials.driver import (
    ENDPOINT_CONFIG,
    AgentContext,
    AgentDriver,
    HeldCredential,
    HubContext,
    SecretData,
    Settings,
)
from watchword.kube.errors import ConfigError
from watchword.registration import driver
from watchword.registration.certificate_approval import CLUSTER_CERTIFICATE
from watchword.registration.driver import ConnectorContext, HubConnector
from watchword.registration.grpc.config import parse_config
from watchword.registration.grpc.manifests import SERVER
from watchword.registration.grpc.options import (
    ANNOTATION,
    CA_FILE,
    HOSTS,
    HUB_OPTIONS,
    JOIN_OPTIONS,
    bootstrap_data,
)
from watchword.registration.grpc.options import SERVER as SERVER_FLAG


class GrpcDriver(
    driver.ClusterDriver,
    driver.AnnotatesCluster,
    driver.ConnectsToHub,
    driver.BringsBootstrapData,
    driver.ReachesServer,
    driver.ReadsHeldCredential,
    driver.RequestsCertificate,
    driver.HasServer,
    driver.NamesJoinFlags,
):
    """The hub signs the certificates of clusters, and its gRPC server accepts them."""

    name = "grpc"
    options = (*JOIN_OPTIONS, *HUB_OPTIONS)
    credential = CLUSTER_CERTIFICATE
    annotations = (ANNOTATION,)
    signer = ""
    server = SERVER

    def agent(self, context: AgentContext) -> AgentDriver:
        from watchword.credentials.certificates.agent import CertificateAgentDriver

        return replace(CertificateAgentDriver.make(context), endpoint_signer=GRPC_SIGNER)

    def hub(self, context: HubContext) -> driver.HubDriver:
        """Return what approves and signs requests, and maintains the authority of the server."""
        from watchword.registration.grpc.hub import make_hub_driver

        return make_hub_driver(context)

    def annotate(self, settings: Settings) -> Mapping[str, str]:  # noqa: ARG002 - the same for every cluster
        return {ANNOTATION: "true"}

    def connector(self, context: ConnectorContext) -> HubConnector:
        """Return how the hub is reached; `ConfigError` when the extra is not installed."""
        try:
            from watchword.registration.grpc.connector import GrpcConnector
        except ImportError as cause:
            raise ConfigError("the library for gRPC is not installed: pip install 'watchword[grpc]'") from cause
        return GrpcConnector.make(context)

    def bootstrap_data(self, settings: Settings, token: Sensitive[str], present: SecretData) -> SecretData:
        """Return `config.yaml` of the bootstrap Secret."""
        return bootstrap_data(settings, token, present)

    async def find_server_problem(self, data: SecretData) -> str:
        """Return why the server of `config.yaml` does not answer from here; empty when it does."""
        try:
            from watchword.registration.grpc.connector import find_server_problem
        except ImportError:
            return ""
        return await find_server_problem(parse_config(data[ENDPOINT_CONFIG]).endpoint)

    def join_flags(self, settings: Settings) -> tuple[str, ...]:
        host = next(iter(HOSTS.read_list(settings)), "GRPC_SERVER")
        address = f"[{host}]:443" if ":" in host else f"{host}:443"
        return ("--registration-auth", self.name, SERVER_FLAG.flag, address, CA_FILE.flag, "GRPC_CA_FILE")

    def read_held(self, data: SecretData) -> HeldCredential | None:
        return read_endpoint_certificate(data)

    def read_pending_key(self, data: SecretData) -> str:
        return read_pending_key(data)
