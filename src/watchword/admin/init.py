"""From a cluster to a hub that others can join: what `init` does, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from watchword.admin.hub_readiness import await_hub
from watchword.admin.hub_setup import HubSetup, is_loopback, set_up_hub
from watchword.admin.initial_token import TokenSpec, ensure_token
from watchword.admin.signer_probe import SignerProbe
from watchword.admin.wait import ObjectWaiter
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.polling import Progress, ignore_progress
from watchword.discovery.published_cluster_info import fetch_cluster_info
from watchword.discovery.token_secret import TokenRecord
from watchword.discovery.token_store import TokenStore
from watchword.drivers.catalog import find_cluster_driver
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class InitOptions:
    """What is wanted of a hub and how to go about it."""

    setup: HubSetup
    token: TokenSpec | None = None
    keep_published: bool = True  # prefer what the cluster publishes to what a kubeconfig happens to name
    probe: bool = True
    dry_run: bool = False
    wait: timedelta | None = None


@dataclass(frozen=True, slots=True)
class InitResult:
    """What came out of it."""

    info: ClusterInfo
    record: TokenRecord | None
    applied: list[str]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class HubInitializer:
    """Makes the cluster behind a client a hub; every step may be repeated."""

    client: Client
    clock: Clock
    progress: Progress = field(default=ignore_progress)

    async def run(self, options: InitOptions) -> InitResult:
        """Apply, hand out a token, try the signer, wait; raises what the server or the token store raises."""
        setup = await self._with_published(options.setup) if options.keep_published else options.setup
        applied = await set_up_hub(self.client, setup, dry_run=options.dry_run)
        self.progress(f"{'would apply' if options.dry_run else 'applied'} {len(applied)} objects")
        record = None
        if options.token is not None:
            store = TokenStore(self.client)
            record = await ensure_token(store, options.token, now=self.clock.now(), dry_run=options.dry_run)
        warnings = choose_warnings(setup)
        if options.probe and not options.dry_run:
            warnings += await self._probe(setup)
        if options.wait is not None and not options.dry_run:
            await await_hub(ObjectWaiter(self.client, options.wait, self.progress), setup, record)
        return InitResult(setup.info, record, applied, warnings)

    async def _with_published(self, setup: HubSetup) -> HubSetup:
        try:
            published = read_cluster_info((await fetch_cluster_info(self.client)).text)
        except (KubeError, ClusterInfoRefused):
            return setup
        same_cluster = published.authorities == setup.info.authorities
        return replace(setup, info=published) if same_cluster else setup

    async def _probe(self, setup: HubSetup) -> list[str]:
        signers = {find_cluster_driver(name).signer for name in setup.drivers} - {""}
        probes = [SignerProbe(self.client, self.clock, signer, progress=self.progress) for signer in sorted(signers)]
        return [trouble for probe in probes if (trouble := await probe.run())]


def choose_warnings(setup: HubSetup) -> list[str]:
    """Return what is allowed and yet probably not meant."""
    if is_loopback(setup.info.server):
        return [f"only this machine reaches {setup.info.server}: name another address with --hub-apiserver"]
    return []
