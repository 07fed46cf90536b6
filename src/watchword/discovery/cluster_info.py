"""ClusterInfo: a cluster's addresses and certificate authorities, and nothing else."""

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec import Struct, field

from watchword.api import yaml
from watchword.api.bootstrap import CLUSTER_INFO, EXTENSION_ENDPOINTS, KUBE_PUBLIC, KUBECONFIG_KEY, SIGNATURE_PREFIX
from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.api.validation import validate_server_address
from watchword.discovery.errors import ClusterInfoRefused, DiscoveryError, DiscoveryReason
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.connect import endpoint_of
from watchword.kube.endpoint import read
from watchword.kube.errors import ApiStatusError, KubeError, MalformedResponse, TimedOut
from watchword.kube.kubeconfig import ResolvedContext
from watchword.pki.certificates import Certificate, join_bundle, split_bundle
from watchword.pki.errors import CertificateRefused
from watchword.pki.jwt import is_detached_signature
from watchword.pki.keys import Pin
from watchword.runtime.reconcile import Reader

ROOT_CA = ObjectKey(KUBE_PUBLIC, "kube-root-ca.crt")


class ClusterAuthorities(Struct, frozen=True):
    """The authorities from the command line, and those that the cluster publishes to every namespace.

    A user who may write kube-root-ca.crt decides what every pod trusts; it is trusted here as well.
    """

    configured: bytes = b""  # PEM; the bundle by which the controller itself trusts its API server

    def pins(self, reader: Reader) -> frozenset[Pin]:
        """Return the pins of all of them, empty when none is known."""
        published = reader.get(CONFIG_MAPS, ROOT_CA) or {}
        text = str((published.get("data") or {}).get("ca.crt") or "")
        return read_pins(self.configured) | read_pins(text.encode())


def read_pins(bundle: bytes) -> frozenset[Pin]:
    try:
        return frozenset(certificate.pin for certificate in split_bundle(bundle)) if bundle else frozenset()
    except CertificateRefused:
        return frozenset()


def cluster_info_for_root_ca(config_map: Object) -> Iterable[ObjectKey]:
    return (CLUSTER_INFO,) if ObjectKey.of(config_map) == ROOT_CA else ()


MAXIMUM_ENDPOINTS = 32


class ClusterInfo(Struct, frozen=True):
    """A set of equivalent addresses and the authorities to trust there.

    The first address is the `server` of the kubeconfig. All of them travel inside it, as an extension of
    its one cluster entry, because only what is inside is covered by the tokens' signatures.
    """

    endpoints: tuple[str, ...]
    authorities: tuple[Certificate, ...]  # empty: the roots installed on the system

    @property
    def server(self) -> str:
        return self.endpoints[0]

    @property
    def ca_bundle(self) -> bytes:
        """The authorities as PEM, empty for the system's roots."""
        return join_bundle(self.authorities)

    @property
    def pins(self) -> tuple[Pin, ...]:
        return tuple(authority.pin for authority in self.authorities)


def write_cluster_info(info: ClusterInfo) -> str:
    cluster: dict[str, Any] = {}
    if info.authorities:
        cluster["certificate-authority-data"] = base64.b64encode(info.ca_bundle).decode()
    if len(info.endpoints) > 1:
        cluster["extensions"] = [{"extension": {"servers": list(info.endpoints)}, "name": EXTENSION_ENDPOINTS}]
    cluster["server"] = info.server
    return yaml.dump(
        {
            "apiVersion": "v1",
            "clusters": [{"cluster": cluster, "name": ""}],
            "contexts": None,
            "current-context": "",
            "kind": "Config",
            "preferences": {},
            "users": None,
        }
    )


def read_cluster_info(text: str | bytes, *, ca_required: bool = True) -> ClusterInfo:
    """Read a ClusterInfo; raise `ClusterInfoRefused` naming the first field that does not belong there."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ClusterInfoRefused("document", "larger than 1 MiB")
    try:
        document = yaml.load(text)
    except yaml.YamlError as cause:
        raise ClusterInfoRefused("document", str(cause)) from cause
    _check_top(document)
    cluster = _only_cluster(document["clusters"])
    _refuse_unknown(cluster, {"server", "certificate-authority-data", "extensions"}, "clusters[0].cluster", _HINTS)
    server = _server(cluster.get("server"), "clusters[0].cluster.server")
    authorities = read_authorities(cluster.get("certificate-authority-data"))
    if ca_required and not authorities:
        raise ClusterInfoRefused("clusters[0].cluster.certificate-authority-data", "missing")
    return ClusterInfo(_endpoints(server, cluster.get("extensions")), authorities)


_CREDENTIALS = "a ClusterInfo must not carry credentials: remove it, they are given separately"
_HINTS = {
    "insecure-skip-tls-verify": "the server's certificate is always verified",
    "certificate-authority": "files of another machine are not read: embed certificate-authority-data",
    "proxy-url": "an unverified server must not choose our proxy",
    "tls-server-name": "an unverified server must not choose the name to verify",
}


def _check_top(document: Any) -> None:
    if not isinstance(document, Mapping):
        raise ClusterInfoRefused("document", "not a kubeconfig")
    _refuse_unknown(
        document, {"apiVersion", "kind", "clusters", "contexts", "current-context", "preferences", "users"}, "", {}
    )
    if (document.get("apiVersion"), document.get("kind")) != ("v1", "Config"):
        raise ClusterInfoRefused("kind", "not a kubeconfig: apiVersion must be v1 and kind Config")
    if document.get("users"):
        raise ClusterInfoRefused("users", _CREDENTIALS)
    for name in ("contexts", "current-context", "preferences"):
        if document.get(name):
            raise ClusterInfoRefused(name, "must be empty: only one unnamed cluster is accepted")
    if not isinstance(document.get("clusters"), list) or len(document["clusters"]) != 1:
        raise ClusterInfoRefused("clusters", "must hold exactly one entry")


def _only_cluster(clusters: list[Any]) -> Mapping[str, Any]:
    entry = clusters[0]
    if not isinstance(entry, Mapping) or not isinstance(entry.get("cluster"), Mapping):
        raise ClusterInfoRefused("clusters[0].cluster", "missing")
    _refuse_unknown(entry, {"name", "cluster"}, "clusters[0]", {})
    if entry.get("name") not in ("", None):  # a tuple: a hostile value may not be hashable
        raise ClusterInfoRefused("clusters[0].name", "must be empty")
    cluster: Mapping[str, Any] = entry["cluster"]
    return cluster


def _refuse_unknown(mapping: Mapping[str, Any], known: set[str], where: str, hints: Mapping[str, str]) -> None:
    for name in mapping:
        if name not in known:
            raise ClusterInfoRefused(f"{where}.{name}".lstrip("."), hints.get(name, "does not belong here: remove it"))


def read_authorities(data: Any) -> tuple[Certificate, ...]:
    """Read certificate-authority-data, none when it is missing; raise `ClusterInfoRefused`."""
    if data is None or data == "":
        return ()
    field = "clusters[0].cluster.certificate-authority-data"
    try:
        return split_bundle(base64.b64decode(str(data), validate=True))
    except ValueError as cause:  # also for characters beyond ASCII
        raise ClusterInfoRefused(field, "is not base64") from cause
    except CertificateRefused as cause:
        raise ClusterInfoRefused(field, str(cause)) from cause


def _endpoints(server: str, extensions: Any) -> tuple[str, ...]:
    field = "clusters[0].cluster.extensions"
    if extensions in ([], None):
        return (server,)
    if not isinstance(extensions, list) or len(extensions) != 1 or not isinstance(extensions[0], Mapping):
        raise ClusterInfoRefused(field, f"may hold only {EXTENSION_ENDPOINTS}")
    entry = extensions[0]
    body = entry.get("extension")
    if entry.get("name") != EXTENSION_ENDPOINTS or set(entry) != {"name", "extension"}:
        raise ClusterInfoRefused(field, f"may hold only {EXTENSION_ENDPOINTS}")
    if not isinstance(body, Mapping) or set(body) != {"servers"} or not isinstance(body["servers"], list):
        raise ClusterInfoRefused(field, "must hold a list of servers")
    servers = body["servers"]
    if len(servers) > MAXIMUM_ENDPOINTS:
        raise ClusterInfoRefused(field, f"must hold at most {MAXIMUM_ENDPOINTS} servers")
    return tuple(dict.fromkeys((server, *(_server(address, field) for address in servers))))


def _server(address: Any, field: str) -> str:
    if not isinstance(address, str):
        raise ClusterInfoRefused(field, "must be an https address")
    complaint = validate_server_address(address)
    if complaint:
        raise ClusterInfoRefused(field, complaint)
    return address


def cluster_info_from_kubeconfig(choice: ResolvedContext) -> ClusterInfo:
    """Return the address and authorities in a kubeconfig; raises `DiscoveryError` when it names none."""
    endpoint = endpoint_of(choice.cluster)
    try:
        return ClusterInfo((endpoint.server,), split_bundle(read(endpoint.ca)))
    except CertificateRefused as cause:
        raise DiscoveryError(
            DiscoveryReason.CLUSTER_INFO_MISSING,
            "the kubeconfig embeds no CA that others could trust: publish cluster-info with `watchword init`",
        ) from cause


EXCHANGE_SECONDS = 10.0  # from the request to the last byte of the body
MAXIMUM_BYTES = 4 * 1024 * 1024  # more than etcd stores in one object


class PublishedClusterInfo(Struct, frozen=True):
    """The content of the ConfigMap when it was read; not verified."""

    text: str
    signatures: Mapping[str, str] = field(default_factory=dict)  # by token id

    def has_valid_signature_for(self, token: BootstrapToken) -> bool:
        signature = self.signatures.get(token.id, "")
        return is_detached_signature(signature, self.text.encode(), key_id=token.id, secret=token.secret)


async def fetch_cluster_info(client: Client) -> PublishedClusterInfo:
    """Read kube-public/cluster-info; raises `KubeError`. A server that stalls or sends without end is cut off."""
    try:
        async with asyncio.timeout(EXCHANGE_SECONDS):
            return _decode(await _read_body(client))
    except TimeoutError as cause:
        raise TimedOut(f"no complete answer within {EXCHANGE_SECONDS:g} seconds") from cause


async def _read_body(client: Client) -> bytes:
    body = bytearray()
    async with client.open(CONFIG_MAPS.path(CLUSTER_INFO)) as response:
        if response.stream is None:
            body += response.body
        else:
            async for chunk in response.stream:
                body += chunk
                if len(body) > MAXIMUM_BYTES:
                    raise MalformedResponse("the server sent more than a ConfigMap can hold: is this an API server?")
    return bytes(body)


async def is_answering(client: Client) -> bool:
    """Whether an API server answers over a connection that the client trusts; a refusal is an answer, too."""
    try:
        await fetch_cluster_info(client)
    except ApiStatusError:
        return True
    except KubeError:
        return False
    return True


def _decode(body: bytes) -> PublishedClusterInfo:
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError as cause:
        raise MalformedResponse("the response is not JSON: is this address a Kubernetes API server?") from cause
    found = read_published(decoded) if isinstance(decoded, dict) else None
    if found is None:
        raise MalformedResponse("cluster-info holds no kubeconfig yet: run `watchword init` on the hub")
    return found


def read_published(config_map: Object) -> PublishedClusterInfo | None:
    """Return what the ConfigMap holds, None when it holds no kubeconfig."""
    data = config_map.get("data")
    if not isinstance(data, dict) or not isinstance(data.get(KUBECONFIG_KEY), str):
        return None
    prefix = len(SIGNATURE_PREFIX)
    signatures = {key[prefix:]: str(value) for key, value in data.items() if key.startswith(SIGNATURE_PREFIX)}
    return PublishedClusterInfo(data[KUBECONFIG_KEY], signatures)
