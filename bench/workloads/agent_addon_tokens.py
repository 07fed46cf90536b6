"""One joined agent, many add-ons on the token driver → each has its Secret with a token; then things are broken."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import PATIENCE, Cluster, Run, bounded
from bench.workloads.hub import an_addon_type, is_true, register
from bench.workloads.join import prepare
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, Label
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.testing.builders import an_addon

PARAMETERS = {"n": 100, "repairs": 10, "settle": 120}
CLUSTER = "cluster1"
SUFFIX = "-hub-kubeconfig"


@dataclass
class Tokens:
    """The tokens on the managed cluster as they are seen, and what is waited for."""

    held: dict[str, str] = field(default_factory=dict)  # add-on → token, still encoded
    goal: Callable[[], bool] = lambda: False

    def take(self, event: str, secret: Object) -> bool:
        """Learn of a Secret; True when the goal is reached."""
        name = secret["metadata"]["name"]
        if name.endswith(SUFFIX):
            token = (secret.get("data") or {}).get("token", "")
            self.held.pop(name.removesuffix(SUFFIX), None)
            if token and event != "DELETED":
                self.held[name.removesuffix(SUFFIX)] = token
        return self.goal()


async def run(one: Run) -> Result:
    """Measure the registration of all, then the repair of one after the other."""
    hub, bootstrap = await prepare(one)
    await _join(one, hub, bootstrap)
    addons = [f"a{number:03d}" for number in range(one.parameters["n"])]
    await bounded(hub.client.create(CLUSTER_MANAGEMENT_ADDONS, an_addon_type(name)) for name in addons)
    await bounded(hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon(name, cluster=CLUSTER)) for name in addons)
    await one.quiet(5.0)
    spoke = one.clusters["spoke"].client
    tokens = Tokens()
    tokens.goal = lambda: tokens.held.keys() >= set(addons)
    async with FinishLine(spoke, SECRETS, tokens.take, namespace=ADDON_NAMESPACE) as finish:
        trigger = [register(hub, CLUSTER, name, kubeClient={}) for name in addons]
        result = await one.measured(len(addons), trigger, finish)
        broken = addons[: one.parameters["repairs"]]
        result.more["account_repair_seconds"] = [
            await _repair(tokens, finish, name, partial(hub.client.delete, SERVICE_ACCOUNTS, await _account(hub, name)))
            for name in broken
        ]
        result.more["secret_repair_seconds"] = [
            await _repair(tokens, finish, name, partial(spoke.delete, SECRETS, _secret(name))) for name in broken
        ]
    return result


async def _account(hub: Cluster, addon: str) -> ObjectKey:
    """Return the add-on's account, however the subject names it."""
    found = await hub.client.list(SERVICE_ACCOUNTS, namespace=CLUSTER, labels=f"{Label.TOKEN_ADDON}={addon}")
    return ObjectKey.of(found.items[0])


def _secret(addon: str) -> ObjectKey:
    return ObjectKey(ADDON_NAMESPACE, f"{addon}{SUFFIX}")


async def _join(one: Run, hub: Cluster, bootstrap: str) -> None:
    def is_done(_: str, cluster: Object) -> bool:
        return is_true(cluster, "ManagedClusterJoined")

    async with FinishLine(hub.client, MANAGED_CLUSTERS, is_done) as finish:
        one.launch_agent(0, bootstrap=bootstrap, cluster=CLUSTER)
        await finish.crossed(PATIENCE)


async def _repair(tokens: Tokens, finish: FinishLine, addon: str, break_it: Callable[[], Awaitable[object]]) -> float:
    """Break something and return the seconds until the add-on holds another token."""
    before = tokens.held[addon]
    tokens.goal = lambda: tokens.held.get(addon, before) != before
    finish.again()
    began = time.monotonic()
    await break_it()
    return await finish.crossed(PATIENCE) - began
