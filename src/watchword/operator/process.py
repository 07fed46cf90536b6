"""The operator: what `watchword operator`, its pod and every local fleet run."""

from __future__ import annotations

import asyncio
from random import Random

from msgspec import Struct, field

from watchword.api.images import IMAGE
from watchword.api.meta import ObjectKey
from watchword.api.names import BOOTSTRAP_NAMESPACE
from watchword.kube.client import Client
from watchword.operator.controllers import controllers, register_informers
from watchword.operator.crds import install_crds
from watchword.runtime.clock import Clock
from watchword.runtime.leader_election import ElectionTiming
from watchword.runtime.manager import Manager, ManagerOptions

LEASE = "watchword-operator-lock"


class OperatorOptions(Struct, frozen=True):
    """How the operator behaves."""

    identity: str = "operator"
    namespace: str = BOOTSTRAP_NAMESPACE  # where its lease is
    image: str = IMAGE  # what it deploys when a spec names none
    install: bool = True
    elect: bool = True
    health: tuple[str, int] | None = None
    timing: ElectionTiming = field(default_factory=ElectionTiming)


async def run_operator(
    client: Client, options: OperatorOptions, *, clock: Clock, random: Random, stop: asyncio.Event | None = None
) -> None:
    """Run the operator's controllers until asked to stop; raises what the manager raises."""
    if options.install:
        await install_crds(client)
    manager = Manager(
        ManagerOptions(
            name="watchword.dev/operator",
            identity=options.identity,
            lease=ObjectKey(options.namespace, LEASE) if options.elect else None,
            timing=options.timing,
            health=options.health,
        ),
        clock=clock,
        random=random,
    )
    connection = manager.connect(client)
    register_informers(connection.cache)
    manager.add(*controllers(connection, clock, image=options.image))
    await manager.run(stop)
