"""The ClusterInfo of a cluster that we can connect to: published, or from our kubeconfig."""

from __future__ import annotations

from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused, DiscoveryError, DiscoveryReason
from watchword.discovery.published_cluster_info import fetch_cluster_info
from watchword.kube.client import Client
from watchword.kube.connect import endpoint_of
from watchword.kube.endpoint import read
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig import ResolvedContext
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import CertificateRefused


async def find_cluster_info(client: Client, choice: ResolvedContext) -> ClusterInfo:
    """Return what the cluster publishes; where it publishes nothing, what our kubeconfig knows."""
    try:
        return read_cluster_info((await fetch_cluster_info(client)).text)
    except (KubeError, ClusterInfoRefused):
        return cluster_info_from_kubeconfig(choice)


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
