"""The operator: what `watchword operator`, its pod and every local fleet run."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from random import Random

from watchword.api import resources
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, BOOTSTRAP_NAMESPACE, HUB_KUBECONFIG_SECRET, Label
from watchword.kube.client import Client
from watchword.operator.applier import owners_of
from watchword.operator.bundles import install_crds
from watchword.operator.cluster_manager import ClusterManagerReconciler
from watchword.operator.klusterlet import KlusterletReconciler, namespace_of
from watchword.operator.rendering import MANAGED_BY, OPERATOR, image_of_operator
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import run_until_stopped
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import ProcessOptions, run_first_requests
from watchword.runtime.reconcile import ControllerSpec, Trigger

DEPLOYED = (
    resources.DEPLOYMENTS,
    resources.CRON_JOBS,
    resources.SERVICE_ACCOUNTS,
    resources.ROLE_BINDINGS,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.NAMESPACES,
    resources.SERVICES,
)
OURS = WatchScope(labels=f"{Label.MANAGED_BY}={MANAGED_BY}")
AGENT_SECRETS = (HUB_KUBECONFIG_SECRET, BOOTSTRAP_KUBECONFIG_SECRET)


def register_informers(cache: Cache) -> None:
    """Register the informers of everything that the operator reads: of Secrets, only the agent's two."""
    for resource in (resources.KLUSTERLETS, resources.CLUSTER_MANAGERS, resources.APPLIED_MANIFEST_WORKS):
        cache.informer(resource)
    for resource in DEPLOYED:
        cache.informer(resource, OURS)
    for name in AGENT_SECRETS:
        cache.informer(resources.SECRETS, WatchScope(fields=f"metadata.name={name}"))


def controllers(connection: ApiServerConnection, clock: Clock, *, image: str = "") -> list[ControllerSpec]:
    """Return both controllers: the kind each reconciles, what else triggers it, its reconciler."""
    cache = connection.cache
    agents = KlusterletReconciler(cache, connection.client, connection.status, clock, image)
    hubs = ClusterManagerReconciler(cache, connection.client, connection.status, image)
    to_agent = tuple(Trigger(resource, partial(owners_of, kind="Klusterlet")) for resource in DEPLOYED)
    to_hub = tuple(Trigger(resource, partial(owners_of, kind="ClusterManager")) for resource in DEPLOYED)
    secrets = Trigger(resources.SECRETS, lambda secret: _agents_in(cache, secret))
    of_agents, of_hubs = (_image_trigger(cache, root) for root in (resources.KLUSTERLETS, resources.CLUSTER_MANAGERS))
    return [
        ControllerSpec("klusterlet", resources.KLUSTERLETS, agents, (*to_agent, secrets, of_agents), workers=2),
        ControllerSpec("cluster-manager", resources.CLUSTER_MANAGERS, hubs, (*to_hub, of_hubs), workers=1),
    ]


def _image_trigger(cache: Cache, root: Resource) -> Trigger:
    """Trigger everything of a kind when the operator's own Deployment gets another image."""

    def keys(obj: Object) -> Iterable[ObjectKey]:
        is_operator = ObjectKey.of(obj) == OPERATOR and cache.get(resources.DEPLOYMENTS, OPERATOR) is not None
        return map(ObjectKey.of, cache.list(root)) if is_operator else ()

    return Trigger(resources.DEPLOYMENTS, keys, facts=image_of_operator)


def _agents_in(cache: Cache, secret: Object) -> Iterable[ObjectKey]:
    namespace = secret["metadata"]["namespace"]
    return [ObjectKey.of(each) for each in cache.list(resources.KLUSTERLETS) if namespace_of(each) == namespace]


OPERATOR_LEASE = "watchword-operator-lock"


@dataclass(frozen=True, kw_only=True)
class OperatorOptions(ProcessOptions):
    """How the operator behaves."""

    identity: str = "operator"
    namespace: str = BOOTSTRAP_NAMESPACE  # where its lease is
    image: str = ""  # what it deploys when a spec names none; empty: its own
    install: bool = True


async def run_operator(
    client: Client, options: OperatorOptions, *, clock: Clock, random: Random, stop: asyncio.Event | None = None
) -> None:
    """Run the operator's controllers until asked to stop; raises what the manager raises."""
    stop = stop or asyncio.Event()
    if options.install:
        first = run_first_requests(lambda: install_crds(client), random, options.metrics, options.health)
        if not await run_until_stopped(stop, first):
            return
    lease = ObjectKey(options.namespace, OPERATOR_LEASE)
    manager = options.make_manager("watchword.dev/operator", lease, clock, random)
    connection = manager.connect(client)
    register_informers(connection.cache)
    manager.add(*controllers(connection, clock, image=options.image))
    await manager.run(stop)
