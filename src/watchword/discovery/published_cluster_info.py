"""Cluster-info as a server publishes it: a text and its signatures, not yet trusted."""

import asyncio
from collections.abc import Mapping

import orjson
from msgspec import Struct, field

from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY, SIGNATURE_PREFIX
from watchword.api.meta import Object
from watchword.api.resources import CONFIG_MAPS
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.errors import DiscoveryError, DiscoveryReason
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.connect import endpoint_of
from watchword.kube.endpoint import read
from watchword.kube.errors import ApiStatusError, KubeError, MalformedResponse, TimedOut
from watchword.kube.kubeconfig import ResolvedContext
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import CertificateRefused
from watchword.pki.jwt import is_detached_signature


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
