"""One account is declared for a set of clusters → a replica for each, and a copy of each Secret beside the account.

The agents are played by the rig: they cost the same wherever their clusters are, and are not what is measured.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import orjson

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import Cluster, Run, bounded
from watchword.accounts.hub.definition import install
from watchword.api.accounts import ADDON_NAME, SELECTOR, content_digest
from watchword.api.addon import SERVED_IN_HUB
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, labels_of, owner_reference
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.sensitive import Sensitive
from watchword.kube.watch import ObjectChange, Snapshot, list_and_watch
from watchword.registration.hub import installation as prerequisites
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import running
from watchword.runtime.status import StatusWriter
from watchword.testing.builders import a_cluster, a_secret, an_addon

PARAMETERS = {"clusters": 300, "settle": 60}
ACCOUNT = ObjectKey("team", "robot")
TOKEN, CA = Sensitive("a.b.c"), b"an authority"


async def run(one: Run) -> Result:
    """Tell beside it how long the same objects take by bare requests, eight at a time."""
    hub = await one.cluster("hub")
    await prerequisites.install(hub.client)
    await install(hub.client, served=SERVED_IN_HUB)
    names = [f"edge{number:04}" for number in range(one.parameters["clusters"])]
    await _prepare(hub, names)
    one.launch_all()
    await one.quiet()
    copied: set[str] = set()

    def is_done(_: str, secret: Object) -> bool:
        if secret["metadata"]["namespace"] == ACCOUNT.namespace:
            copied.add(secret["metadata"]["name"])
        return len(copied) == len(names)

    async with running(_play_agents(hub), "agents"), FinishLine(hub.client, SECRETS, is_done) as finish:
        manifest = MANAGED_SERVICE_ACCOUNTS.manifest(ACCOUNT, spec={})
        trigger = [hub.client.create(MANAGED_SERVICE_ACCOUNTS, manifest)]
        result = await one.measured(len(names), trigger, finish)
    result.more.update(copies=len(copied), bare_requests_s=round(await _bare(hub, names), 1))
    return result


async def _prepare(hub: Cluster, names: list[str]) -> None:
    for name in (ACCOUNT.namespace, "bare"):
        await hub.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
    await bounded(hub.client.create(NAMESPACES, a_cluster_namespace(name)) for name in names)
    await bounded(_add_cluster(hub, name) for name in names)
    binding = MANAGED_CLUSTER_SET_BINDINGS.manifest(
        ObjectKey(ACCOUNT.namespace, "global"), spec={"clusterSet": "global"}
    )
    await hub.client.create(MANAGED_CLUSTER_SET_BINDINGS, binding)


def a_cluster_namespace(name: str) -> Object:
    """Return the namespace of a cluster, as a hub makes it."""
    return NAMESPACES.manifest(ObjectKey.cluster(name), metadata={"labels": {Label.CLUSTER_NAME: name}})


async def _add_cluster(hub: Cluster, name: str) -> None:
    cluster = await hub.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    accepted = Condition.true(ConditionType.HUB_ACCEPTED, "HubClusterAdminAccepted")
    await StatusWriter(hub.client, SystemClock()).set_condition(MANAGED_CLUSTERS, cluster, accepted)
    await hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon(ADDON_NAME, cluster=name))


async def _play_agents(hub: Cluster) -> None:
    """Write the Secret and the status of every replica that appears."""
    seen: set[str] = set()
    async with aclosing(list_and_watch(hub.client, MANAGED_SERVICE_ACCOUNTS)) as facts, asyncio.TaskGroup() as group:
        async for fact in facts:
            raws = fact.items if isinstance(fact, Snapshot) else [fact.raw] if isinstance(fact, ObjectChange) else []
            for replica in map(orjson.loads, raws):
                name = replica["metadata"]["namespace"]
                if Label.ACCOUNT_NAMESPACE in labels_of(replica) and name not in seen:
                    seen.add(name)
                    group.create_task(_report(hub, replica))


async def _report(hub: Cluster, replica: Object) -> None:
    secret = a_secret(
        ACCOUNT.name,
        namespace=replica["metadata"]["namespace"],
        data={"token": TOKEN.reveal(), "ca.crt": CA},
        labels=dict([SELECTOR.split("=")]),
        annotations={Annotation.TOKEN_DIGEST: content_digest(TOKEN, CA)},
        ownerReferences=[owner_reference(replica)],
    )
    await hub.client.create(SECRETS, secret)
    present = Condition.true(ConditionType.ALL_ACCOUNTS_PRESENT, "ServiceAccountPresent")
    await StatusWriter(hub.client, SystemClock()).set_condition(MANAGED_SERVICE_ACCOUNTS, replica, present)


async def _bare(hub: Cluster, names: list[str]) -> float:
    """Return the seconds that one object for each cluster and one Secret take, and nothing else."""

    async def cluster(name: str) -> None:
        account = MANAGED_SERVICE_ACCOUNTS.manifest(ObjectKey("bare", name), spec={})
        await hub.client.create(MANAGED_SERVICE_ACCOUNTS, account)
        await hub.client.create(SECRETS, a_secret(name, namespace="bare", data={"token": TOKEN.reveal()}))

    began = time.monotonic()
    await bounded(cluster(name) for name in names)
    return time.monotonic() - began
