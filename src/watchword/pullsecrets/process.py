"""The controllers of pull secrets put together: what `watchword pull-secrets run` runs."""

import asyncio
from dataclasses import dataclass, field
from random import Random

from watchword.api.limits import PULL_SECRET_TOKENS_PER_SECOND
from watchword.api.meta import ObjectKey
from watchword.api.pull_secrets import CONFIGURATION, PULL_SECRETS_NAMESPACE, REGISTRY_SERVICES
from watchword.api.rate_limit import Rate, TokenBucket
from watchword.credentials.evidence import SignerTiming, SigningKeys, TokenEvidence
from watchword.kube.client import Client
from watchword.kube.watch import WatchOptions
from watchword.pullsecrets.controllers import PullSecretParts, pull_secret_controllers, register_informers
from watchword.pullsecrets.metrics import PullSecretMetrics
from watchword.runtime.backoff import Quarantine
from watchword.runtime.clock import Clock
from watchword.runtime.leader_election import ElectionTiming
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import Metrics

PULL_SECRETS_LEASE = ObjectKey(PULL_SECRETS_NAMESPACE, "watchword-pull-secrets-lock")


@dataclass(frozen=True)
class PullSecretOptions:
    """How the controllers of pull secrets behave."""

    identity: str = "pull-secrets"
    config_map: ObjectKey = CONFIGURATION
    registry_services: tuple[ObjectKey, ...] = REGISTRY_SERVICES
    only_used: bool = False
    requests_per_second: float = PULL_SECRET_TOKENS_PER_SECOND
    signer_timing: SignerTiming = field(default_factory=SignerTiming)
    elect: bool = True
    health: tuple[str, int] | None = None
    timing: ElectionTiming = field(default_factory=ElectionTiming)
    follow: WatchOptions | None = None
    quarantine: Quarantine = field(default_factory=Quarantine)
    metrics: Metrics = field(default_factory=Metrics, compare=False)


async def run_pull_secrets(
    client: Client, options: PullSecretOptions, *, clock: Clock, random: Random, stop: asyncio.Event | None = None
) -> None:
    """Run the controllers until asked to stop; raises what the manager raises."""
    manager = Manager(
        ManagerOptions(
            name="watchword.dev/pull-secrets",
            identity=options.identity,
            lease=PULL_SECRETS_LEASE if options.elect else None,
            timing=options.timing,
            health=options.health,
            follow=options.follow,
            quarantine=options.quarantine,
        ),
        clock=clock,
        random=random,
        metrics=options.metrics,
    )
    connection = manager.connect(client)
    parts = PullSecretParts(
        connection.cache,
        connection.client,
        connection.events,
        clock,
        PullSecretMetrics(options.metrics.registry, now=clock.now),
        TokenEvidence(SigningKeys(options.signer_timing)),
        random,
        config_map=options.config_map,
        registry_services=options.registry_services,
        only_used=options.only_used,
        rate=TokenBucket(Rate(options.requests_per_second)),
    )
    register_informers(parts)
    manager.add(*pull_secret_controllers(parts))
    manager.add_job("signing keys", parts.signing_key_monitor.run)
    await manager.run(stop)
