"""One life of a fleet in which every program of every pillar has something to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from random import Random

from tests.simulation.network import ProcessRun
from tests.simulation.settings import HOUR, MINUTE

from bench.reliability.credentials import CredentialKind
from bench.reliability.fleet import ADDON, CredentialFleet, FleetSize
from bench.reliability.virtual_run import pass_time
from watchword.api import resources
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.setup import FIELD_MANAGER, DiscoverySetup, discovery_manifests
from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.errors import NotFound
from watchword.operator.bundles import install_crds
from watchword.operator.process import OperatorOptions, run_operator
from watchword.pki.certificates import split_bundle
from watchword.runtime.manifests import apply_manifests

OPERATOR = "operator"
AGENT, CSR_AGENT = "edge-token-2", "edge-csr-3"  # as the fleet names its clusters
SIZE = FleetSize(clusters=1, accounts=2, pull_secrets=2, lifetime=HOUR)
CLUSTER_ADDRESS = "https://hub.example:6443"


async def live_through(fleet: CredentialFleet) -> None:
    """Publish cluster-info, deploy with the operator, renew every credential, remove one of each kind."""
    await start_everything(fleet)
    await pass_time(HOUR + 5 * MINUTE)
    await _remove_some(fleet)
    await pass_time(30 * MINUTE)


async def start_everything(fleet: CredentialFleet) -> None:
    """Publish cluster-info, and start the operator."""
    await _set_up_discovery(fleet)
    await _start_operator(fleet)


async def _set_up_discovery(fleet: CredentialFleet) -> None:
    """Publish cluster-info, with one token that stays and one that expires."""
    info = ClusterInfo((CLUSTER_ADDRESS,), split_bundle(fleet.plane.ca_pem))
    await apply_manifests(fleet.client, discovery_manifests(DiscoverySetup(info)), manager=FIELD_MANAGER)
    for life in (timedelta(days=1), 20 * MINUTE):
        token, expires = BootstrapToken.generate(Random(str(life)).randbytes), fleet.plane.clock.now() + life
        await TokenStore(fleet.client).create(TokenRecord(token, expires=expires, groups=(MANAGED_CLUSTER_GROUP,)))


async def _start_operator(fleet: CredentialFleet) -> None:
    """Run the operator, for a hub and an agent."""

    async def run(process: ProcessRun) -> None:
        client = fleet.over_link(fleet.plane.fresh_client(), process)
        options = OperatorOptions(elect=False, install=False)
        await run_operator(client, options, clock=fleet.plane.clock, random=Random(OPERATOR))

    await install_crds(fleet.client)
    fleet.add_process(OPERATOR, run)
    for resource, spec in ((resources.CLUSTER_MANAGERS, {}), (resources.KLUSTERLETS, {"clusterName": "edge"})):
        manifest = resource.manifest(ObjectKey.cluster(resource.kind.lower()), spec=spec)
        await fleet.client.create(resource, manifest)


async def _remove_some(fleet: CredentialFleet) -> None:
    """Remove the second account and the second pull secret, and the add-on that has a certificate."""
    account = fleet.places_of(CredentialKind.ACCOUNT)[1]
    await fleet.client.delete(resources.MANAGED_SERVICE_ACCOUNTS, account.secret)
    pull = fleet.places_of(CredentialKind.PULL_SECRET)[1]
    await fleet.client.delete(resources.SERVICE_ACCOUNTS, ObjectKey(fleet.namespace, "builder-1"))
    addon = fleet.places_of(CredentialKind.ADDON_CERTIFICATE)[0]
    await fleet.client.delete(resources.MANAGED_CLUSTER_ADDONS, ObjectKey(CSR_AGENT, ADDON))
    for gone in (account, pull, addon):
        fleet.places.remove(gone)


async def served_objects(fleet: CredentialFleet) -> AsyncIterator[tuple[Resource, Object]]:
    """Yield every object of every kind that the control plane serves."""
    known = [value for value in vars(resources).values() if isinstance(value, Resource)]
    for kind in known:
        if "review" not in kind.plural:
            with suppress(NotFound):  # this control plane does not serve the kind
                for obj in (await fleet.client.list(kind)).items:
                    yield kind, obj
