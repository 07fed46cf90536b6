"""Everything that makes a cluster a hub, as `init` applies it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from watchword.admin import operator_deployment
from watchword.admin.apply import apply_all
from watchword.admin.errors import OperationRefused
from watchword.admin.operator_deployment import operator_objects
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP, NODE_GROUP
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.resources import CLUSTER_MANAGERS, CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.published_cluster_info import fetch_cluster_info
from watchword.discovery.setup import DiscoverySetup, discovery_manifests
from watchword.drivers.catalog import CATALOG, Catalog
from watchword.drivers.options import DRIVER_LIST, Settings, Side, settings_to_spec
from watchword.hub import prerequisites
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.operator.rendering import IMAGE
from watchword.runtime.manifests import is_own_definition

CLUSTER_MANAGER = "cluster-manager"
FIELD_MANAGER = "watchword-init"


@dataclass(frozen=True, slots=True)
class HubSetup:
    """What a hub should be like."""

    info: ClusterInfo  # what joining clusters are told
    drivers: tuple[str, ...] = ()  # empty: the default driver
    settings: Settings = field(default_factory=dict)  # of the drivers
    gates: Mapping[str, bool] = field(default_factory=dict)
    image: str = IMAGE
    deploy: bool = True  # False where the controllers run elsewhere
    approve_nodes: bool = False  # kubelets with a node token get their certificate without a person

    @property
    def discovery(self) -> DiscoverySetup:
        """What is published, and who may ask for certificates."""
        nodes = (NODE_GROUP,) if self.approve_nodes else ()
        return DiscoverySetup(self.info, requesters=(MANAGED_CLUSTER_GROUP, *nodes), approve_nodes_of=nodes)


def validate_hub_settings(
    drivers: Sequence[str], settings: Settings, gates: Mapping[str, bool], catalog: Catalog = CATALOG
) -> list[str]:
    """Return why settings are wrong or contradict each other, one sentence each."""
    ungated = [
        f"{option.flag} has an effect only with --feature-gates {option.gate}=true: add it"
        for option in catalog.options(Side.HUB)
        if option.gate and option.read(settings) and not gates.get(option.gate)
    ]
    return [*catalog.validate(Side.HUB, settings, *drivers), *ungated]


def cluster_manager(setup: HubSetup, catalog: Catalog = CATALOG) -> Object:
    """Return the ClusterManager that says so to the operator."""
    registration = settings_to_spec(catalog.options(Side.HUB), setup.settings)
    registration[DRIVER_LIST] = [
        {"authType": name, **settings_to_spec(catalog.options(Side.HUB, name), setup.settings).get(DRIVER_LIST, {})}
        for name in setup.drivers or (catalog.default,)
    ]
    if setup.gates:
        registration["featureGates"] = [
            {"feature": name, "mode": "Enable" if on else "Disable"} for name, on in sorted(setup.gates.items())
        ]
    spec = {"imagePullSpec": setup.image, "registrationConfiguration": registration}
    return CLUSTER_MANAGERS.manifest(ObjectKey.cluster(CLUSTER_MANAGER), spec=spec)


def hub_objects(setup: HubSetup, *, published: bool = False, managed: bool = True) -> list[Manifest]:
    """Return what a hub has beside its prerequisites, in an order in which it can be applied."""
    manager = [(CLUSTER_MANAGERS, cluster_manager(setup))] if managed else []
    found = [row for row in discovery_manifests(setup.discovery) if not (published and row[0] is CONFIG_MAPS)]
    return [*found, *manager]


async def set_up_hub(client: Client, setup: HubSetup, *, dry_run: bool = False) -> list[str]:
    """Apply every object; what says the same already, cluster-info above all, is left as it stands.

    A ClusterManager of another system is left alone, and its hub is not ours to deploy: `OperationRefused`.
    """
    foreign = await has_foreign_manager(client)
    if foreign and setup.deploy:
        raise OperationRefused(
            "another system's operator carries out the ClusterManager of this cluster: stop the controllers that it "
            "deploys, run `watchword init --no-deploy`, and then `watchword hub` where you run controllers"
        )
    own = hub_objects(setup, published=await is_published(client, setup.info), managed=not foreign)
    # The hub's controllers apply their prerequisites too: one field manager, lest two hold what one lets go.
    first = list(prerequisites.manifests())
    held = {(resource, ObjectKey.of(obj)) for resource, obj in first}
    operator = await operator_objects(client, setup.image, hub=True) if setup.deploy else []
    deployed = [(resource, obj) for resource, obj in operator if (resource, ObjectKey.of(obj)) not in held]
    rows = (
        (first, prerequisites.FIELD_MANAGER),
        (deployed, operator_deployment.FIELD_MANAGER),
        (own, FIELD_MANAGER),
    )
    return [name for part, manager in rows for name in await apply_all(client, part, manager=manager, dry_run=dry_run)]


async def has_foreign_manager(client: Client) -> bool:
    """Whether the kind ClusterManager was brought here by another system."""
    found = await client.find(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.cluster(CLUSTER_MANAGERS.group_resource))
    return found is not None and not is_own_definition(found, operator_deployment.FIELD_MANAGER)


async def is_published(client: Client, info: ClusterInfo) -> bool:
    """Whether the cluster tells exactly this of itself; another tool may write the same in other words."""
    try:
        return read_cluster_info((await fetch_cluster_info(client)).text) == info
    except (KubeError, ClusterInfoRefused):
        return False


def is_loopback(server: str) -> bool:
    """Whether an address leads nobody but this machine to the hub."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
