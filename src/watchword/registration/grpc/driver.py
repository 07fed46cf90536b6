"""Clusters register and work over gRPC, with CloudEvents, where the hub's API server is not reachable."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from watchword.api.meta import ObjectKey, Resource
from watchword.api.names import CLUSTER_LEASE, GRPC_SERVER_SERVICE_ACCOUNT, GRPC_SIGNER, HUB_NAMESPACE
from watchword.api.rbac import RbacRule
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.api.sensitive import Sensitive
from watchword.api.validation import is_dns_subdomain
from watchword.credentials.certificates.agent import read_endpoint_certificate, read_pending_key
from watchword.credentials.driver import (
    AUTO_APPROVAL,
    DRIVER_LIST,
    ENDPOINT_CONFIG,
    AgentContext,
    AgentDriver,
    DriverOption,
    HeldCredential,
    HubContext,
    OptionType,
    SecretData,
    Settings,
    Side,
)
from watchword.kube.errors import ConfigError
from watchword.pki.subjects import AlternativeNames
from watchword.registration import driver
from watchword.registration.certificate_approval import CLUSTER_CERTIFICATE, AllowList
from watchword.registration.driver import ConnectorContext, HubConnector, HubServer, PublishedCertificate
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config, parse_address, parse_config

SIGNER_SECRET = ObjectKey(HUB_NAMESPACE, "signer-secret")
SERVING_SECRET = ObjectKey(HUB_NAMESPACE, "grpc-server-serving-cert")
CA_BUNDLE = ObjectKey(HUB_NAMESPACE, "ca-bundle-configmap")
BUNDLE_KEY = "ca-bundle.crt"
SERVING_KEY = "serving.crt"  # beside the bundle, for `status` and `forecast`: it is public


def _rule(why: str, resource: Resource, verbs: str, *names: str, subresource: str = "") -> RbacRule:
    place = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return RbacRule(why, resource.group, (place,), tuple(verbs.split()), names)


SERVER_RULES = (
    _rule("registers clusters, and sends each its own", MANAGED_CLUSTERS, "get list watch create update"),
    _rule("agents report their state", MANAGED_CLUSTERS, "update", subresource="status"),
    _rule(
        "passes certificate requests on, and sends the certificates",
        CERTIFICATE_SIGNING_REQUESTS,
        "get list watch create",
    ),
    _rule("agents renew their leases", LEASES, "get list watch update", CLUSTER_LEASE),
    _rule("sends add-ons to their clusters", MANAGED_CLUSTER_ADDONS, "get list watch"),
    _rule("agents report on their add-ons", MANAGED_CLUSTER_ADDONS, "update", subresource="status"),
    _rule("sends works to their clusters, and maintains their finalizer", MANIFEST_WORKS, "get list watch patch"),
    _rule("agents report on their works", MANIFEST_WORKS, "patch", subresource="status"),
    _rule("agents record events", EVENTS, "create patch"),
    _rule("requests the tokens of add-ons", SERVICE_ACCOUNTS, "create", subresource="token"),
    _rule("authenticates clusters that join", TOKEN_REVIEWS, "create"),
    _rule("authorizes every event", SUBJECT_ACCESS_REVIEWS, "create"),
)
"""It may neither accept clusters nor approve certificates, so the hub's admission policies hold for it, too."""

SIGNER_RULES = (
    RbacRule(
        "approves and signs for its signer alone",
        CERTIFICATE_SIGNING_REQUESTS.group,
        ("signers",),
        ("approve", "sign"),
        (GRPC_SIGNER,),
    ),
    _rule("writes the signed certificate", CERTIFICATE_SIGNING_REQUESTS, "update", subresource="status"),
)
"""What lets the hub's controllers approve and sign for the gRPC signer."""

_CREATES = "a right to create cannot name objects"
CONTROLLER_RULES = (
    _rule(_CREATES, SECRETS, "create"),
    _rule("maintains the authority", SECRETS, "get list watch update", SIGNER_SECRET.name),
    _rule("renews the server's certificate", SECRETS, "get update", SERVING_SECRET.name),
    _rule(_CREATES, CONFIG_MAPS, "create"),
    _rule("publishes the authorities, and measures when they end", CONFIG_MAPS, "get list watch patch", CA_BUNDLE.name),
)
"""What lets them maintain the authority and the server's certificate."""

PORT = 8090
_CERTIFICATES, _AUTHORITIES = "/grpc/serving", "/grpc/client-ca"

SERVER = HubServer(
    name="grpc-server",
    service_account=GRPC_SERVER_SERVICE_ACCOUNT,
    port=PORT,
    arguments=(
        "grpc-server",
        f"--serve=$(POD_IP):{PORT}",
        f"--tls-cert-file={_CERTIFICATES}/tls.crt",
        f"--tls-key-file={_CERTIFICATES}/tls.key",
        f"--client-ca-file={_AUTHORITIES}/{BUNDLE_KEY}",
    ),
    rules=SERVER_RULES,
    signer_rules=SIGNER_RULES,
    controller_rules=CONTROLLER_RULES,
    secrets={SERVING_SECRET.name: _CERTIFICATES},
    config_maps={CA_BUNDLE.name: _AUTHORITIES},
    published=CA_BUNDLE,
    certificates=(
        PublishedCertificate(
            name="gRPC authority",
            field=BUNDLE_KEY,
            consequence="the certificates of clusters that registered over gRPC are no longer accepted",
            is_authority=True,
        ),
        PublishedCertificate(
            name="gRPC server certificate",
            field=SERVING_KEY,
            consequence="agents that reach the hub over gRPC no longer trust its server",
        ),
    ),
    exposure="grpc",
)


ANNOTATION = "agent.open-cluster-management.io/grpc"
"""Marks the ManagedCluster of a cluster that registers over gRPC."""


def validate_server(value: str) -> str:
    try:
        parse_address(value)
    except ConfigError as objection:
        return str(objection)
    return ""


SERVER_ADDRESS = DriverOption(
    flag="--grpc-server",
    help="HOST:PORT of the hub's gRPC server; requires --registration-auth grpc.",
    side=Side.JOIN,
    required=True,
    validate=validate_server,
)
CA_FILE = DriverOption(
    flag="--grpc-ca-file",
    help="CA bundle (PEM) for the gRPC server; by default the CAs of this system.",
    side=Side.JOIN,
)


def _read_authorities(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as cause:
        raise ConfigError(f"{CA_FILE.flag} {path} cannot be read: {cause.strerror}") from cause
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise ConfigError(f"{CA_FILE.flag} {path} contains no PEM certificate: give the authority of the gRPC server")
    return content


LONGEST_LIFETIME = timedelta(days=30)
"""How long a certificate of an agent is valid, unless it asks for less."""


def validate_hosts(value: str) -> str:
    names = AlternativeNames.for_hosts(filter(None, value.split(","))).dns  # addresses are no names
    wrong = [name for name in names if not is_dns_subdomain(name)]
    return f"{wrong[0]!r} is neither a host name nor an IP address: correct {HOSTS.flag}" if wrong else ""


USERS = DriverOption(
    flag="--auto-approved-grpc-users",
    aliases=("--auto-approved-grpc-identities",),
    help=f"Users whose first request over gRPC is approved automatically, with {AUTO_APPROVAL}; separated by commas.",
    side=Side.HUB,
    type=OptionType.LIST,
    paths=((DRIVER_LIST, "grpc", "autoApprovedIdentities"),),
    gate=AUTO_APPROVAL,
)
HOSTS = DriverOption(
    flag="--grpc-server-hosts",
    help="Host names and addresses by which agents reach the gRPC server, for its certificate; separated by commas.",
    side=Side.HUB,
    type=OptionType.LIST,
    exposure="grpc",
    validate=validate_hosts,
)


def read_allow_list(context: HubContext) -> AllowList:
    """Return whose first request over gRPC is approved automatically, from the settings of the hub."""
    return AllowList(context.auto_approval, frozenset(USERS.read_list(context.settings)))


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
    options = (SERVER_ADDRESS, CA_FILE, USERS, HOSTS)
    credential = CLUSTER_CERTIFICATE
    annotations = (ANNOTATION,)
    signer = ""
    server = SERVER

    def agent(self, context: AgentContext) -> AgentDriver:
        from watchword.credentials.certificates.agent import CertificateAgentDriver

        return CertificateAgentDriver.make(context, endpoint_signer=GRPC_SIGNER)

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
        """Return `config.yaml`: what flags do not name stays as it is, the token is replaced."""
        server, ca_file = SERVER_ADDRESS.read(settings), CA_FILE.read(settings)
        known = parse_config(present[ENDPOINT_CONFIG]).endpoint if ENDPOINT_CONFIG in present else None
        if not server and known is None:
            return {}
        endpoint = replace(known, url=server or known.url) if known is not None else GrpcEndpoint(url=server)
        if ca_file:
            endpoint = replace(endpoint, ca_data=_read_authorities(Path(ca_file)))
        return {ENDPOINT_CONFIG: bootstrap_config(endpoint, token)}

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
        return ("--registration-auth", self.name, SERVER_ADDRESS.flag, address, CA_FILE.flag, "GRPC_CA_FILE")

    def read_held(self, data: SecretData) -> HeldCredential | None:
        return read_endpoint_certificate(data)

    def read_pending_key(self, data: SecretData) -> str:
        return read_pending_key(data)
