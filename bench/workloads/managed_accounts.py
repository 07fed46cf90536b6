"""Accounts of one cluster are declared → each has its ServiceAccount, its token in a Secret, and a status about it."""

from __future__ import annotations

import time

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import Cluster, Run, bounded
from bench.workloads.account_fan_out import a_cluster_namespace
from watchword.accounts.hub.definition import install
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import SERVED_IN_HUB
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    OCM_MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.tokens import request_token
from watchword.registration.hub import installation as prerequisites
from watchword.testing.builders import a_cluster, a_secret, a_service_account, an_addon

PARAMETERS = {"n": 300, "settle": 60, "held": 1}  # held: created with the finalizer, as `msa create` does
CLUSTER, AGENT_NAMESPACE = "edge", "accounts"
KIND = OCM_MANAGED_SERVICE_ACCOUNTS  # which both systems serve


async def run(one: Run) -> Result:
    """Tell beside it how long the bare requests take, eight at a time, from a client that does nothing else."""
    hub = await one.cluster("hub")
    await prerequisites.install(hub.client)
    await install(hub.client, served=SERVED_IN_HUB)
    await hub.client.create(NAMESPACES, a_cluster_namespace(CLUSTER))
    for name in (AGENT_NAMESPACE, "bare"):
        await hub.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
    await hub.client.create(MANAGED_CLUSTERS, a_cluster(CLUSTER, accepted=True))
    await hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon(ADDON_NAME, cluster=CLUSTER))
    one.launch_all(cluster=CLUSTER, namespace=AGENT_NAMESPACE)
    await one.quiet()
    wanted = one.parameters["n"]
    reported: set[str] = set()

    def is_done(_: str, account: Object) -> bool:
        if is_true(account, ConditionType.TOKEN_REPORTED):
            reported.add(account["metadata"]["name"])
        return len(reported) == wanted

    keys = [ObjectKey(CLUSTER, f"robot{number:04}") for number in range(wanted)]
    spec = {"rotation": {"validity": "1h0m0s"}}
    async with FinishLine(hub.client, KIND, is_done) as finish:
        held = {"finalizers": [Finalizer.ACCOUNT]} if one.parameters["held"] else {}
        trigger = [hub.client.create(KIND, KIND.manifest(key, metadata=held, spec=spec)) for key in keys]
        result = await one.measured(wanted, trigger, finish)
    secrets = (await hub.client.list(SECRETS, namespace=CLUSTER)).items
    result.more.update(secrets=len(secrets), bare_requests_s=round(await _bare(hub, wanted), 1))
    return result


async def _bare(hub: Cluster, wanted: int) -> float:
    """Return the seconds that a ServiceAccount, its token and its Secret take for each account, and nothing else."""

    async def account(number: int) -> None:
        name = f"bare{number:04}"
        await hub.client.create(SERVICE_ACCOUNTS, a_service_account(name, namespace="bare"))
        issued = await request_token(hub.client, ObjectKey("bare", name), expiration_seconds=3600)
        data: dict[str, str | bytes] = {"token": issued.token.reveal(), "ca.crt": hub.plane.credentials.ca_pem}
        await hub.client.create(SECRETS, a_secret(name, namespace="bare", data=data))

    began = time.monotonic()
    await bounded(account(number) for number in range(wanted))
    return time.monotonic() - began
