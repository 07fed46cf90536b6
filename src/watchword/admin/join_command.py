"""Refuses to print a join command that cannot work: the hub must publish where it is, and sign that for the token."""

from __future__ import annotations

from datetime import timedelta

from watchword.admin.errors import OperationRefused
from watchword.admin.hub_readiness import SignatureCondition
from watchword.admin.wait import ObjectWaiter
from watchword.api.bootstrap import CLUSTER_INFO
from watchword.api.resources import CONFIG_MAPS
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused, DiscoveryError
from watchword.discovery.published_cluster_info import fetch_cluster_info
from watchword.discovery.token_secret import BOTH_USAGES, TokenRecord
from watchword.kube.client import Client
from watchword.kube.errors import NotFound

SIGNING_PATIENCE = timedelta(seconds=10)


async def require_joinable_hub(client: Client, record: TokenRecord) -> ClusterInfo:
    """Return what the hub publishes; `OperationRefused` when no cluster could join by the token."""
    if record.usages != BOTH_USAGES:
        raise OperationRefused("a join command needs a token of both usages: leave --usages out")
    try:
        return read_cluster_info((await fetch_cluster_info(client)).text)
    except (NotFound, DiscoveryError, ClusterInfoRefused) as cause:
        raise OperationRefused(
            f"this cluster publishes no usable cluster-info ({CLUSTER_INFO}), so no cluster can find it by a token: "
            "run `watchword init`"
        ) from cause


async def await_signature(client: Client, token_id: str) -> None:
    """Return once cluster-info is signed for the token; `NotReady` when the hub does not sign."""
    advice = f"do the hub's controllers run? `watchword doctor` tells; `watchword token delete {token_id}` undoes this"
    await ObjectWaiter(client, SIGNING_PATIENCE).until(
        CONFIG_MAPS, CLUSTER_INFO, SignatureCondition(token_id), advice=advice
    )
