"""How a joining cluster reaches its hub: an address, an authority that was proved, and a token."""

from msgspec import Struct

from watchword.admin.errors import InvalidInput, OperationRefused
from watchword.api.bootstrap import TOKEN_PATTERN
from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.sensitive import Sensitive
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.discover import BootstrapTokenDiscovery, ClusterDiscovery
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.access_reviews import ResourceAccess, can_i
from watchword.kube.client import Client
from watchword.kube.connect import client_for_context
from watchword.kube.errors import Forbidden, NotFound, Unauthorized
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.pki.certificates import split_bundle
from watchword.pki.keys import Pin
from watchword.registration.agent.membership import NameTaken, RegistrationRequest, validate_cluster_ownership

# The names that Open Cluster Management writes, so that either side reads the other's file.
HUB, BOOTSTRAP = "hub", "bootstrap"


class BootstrapAccess(Struct, frozen=True):
    """Access to a verified hub with the credential of a joining cluster."""

    info: ClusterInfo
    token: Sensitive[str]

    @property
    def kubeconfig(self) -> Kubeconfig:
        """The kubeconfig for the bootstrap Secret; it contains the token."""
        cluster = ClusterEntry(self.info.server, ca_data=self.info.ca_bundle)
        context = ContextEntry(HUB, BOOTSTRAP)
        return Kubeconfig({HUB: cluster}, {BOOTSTRAP: UserEntry(token=self.token)}, {BOOTSTRAP: context}, BOOTSTRAP)

    def client(self) -> Client:
        return client_for_context(self.kubeconfig.choose())


class HubAddress(Struct, frozen=True):
    """An address and a token, and what proves that the hub is the one: an authority, a pin, or the token itself."""

    server: str
    token: Sensitive[str]
    authority: bytes = b""  # PEM
    pins: tuple[Pin, ...] = ()


async def find_hub(discovery: ClusterDiscovery, address: HubAddress) -> BootstrapAccess:
    """Return the way to a hub; the token is never sent before the hub has proved itself.

    Raises `InvalidInput` when nothing given can prove it, else what discovery raises.
    """
    text = address.token.reveal()
    if address.authority:
        info = ClusterInfo((address.server,), split_bundle(address.authority))
    elif TOKEN_PATTERN.fullmatch(text):
        method = BootstrapTokenDiscovery(
            address.server, BootstrapToken.parse(text), address.pins, unsafe_skip_ca_pin=not address.pins
        )
        if not address.pins:
            discovery.progress("note: --discovery-token-ca-cert-hash also keeps out others who hold this token")
        info = await discovery.by_token(method)
    elif address.pins:
        info = await discovery.by_pin(address.server, address.pins)
    else:
        raise InvalidInput(
            "this token signs nothing, so it cannot verify the hub, and it is not sent to an unverified hub: give "
            "--ca-file, or --discovery-token-ca-cert-hash"
        )
    return BootstrapAccess(info, address.token)


async def require_joinable(hub: Client, cluster: str, uid: str) -> Object | None:
    """Return what the hub knows of a cluster that may join under that name; else `OperationRefused` or `NameTaken`.

    Checked before anything is written on the managed cluster, so that a wrong token is reported here and not in a log.
    """
    try:
        allowed = await can_i(hub, ResourceAccess("create", MANAGED_CLUSTERS, ObjectKey.cluster(cluster)))
    except Unauthorized as cause:
        raise OperationRefused(
            "the hub does not know this token: it has expired, was deleted, or may not authenticate; "
            "`watchword token create --print-join-command` on the hub makes a new one"
        ) from cause
    if not allowed:
        raise OperationRefused(
            "the token may not register clusters: run `watchword init` on the hub, and use a token of "
            "`watchword token create`"
        )
    try:
        found = await hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    except (NotFound, Forbidden):
        return None
    objection = validate_cluster_ownership(Cluster.read(found), RegistrationRequest(cluster, uid))
    if objection:
        raise NameTaken(
            f"{objection}; for a cluster that was rebuilt, the hub's administrator frees the name with "
            f"`watchword rejoin --take-over --cluster-name {cluster}`"
        )
    return found
