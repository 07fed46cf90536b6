"""Everything that makes a cluster a hub, as `init` applies it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.admin.apply import apply_all, keep_unnamed, select_settings
from watchword.admin.errors import InvalidInput, OperationRefused
from watchword.admin.wait import ObjectWaiter
from watchword.admin.workloads import FIELD_MANAGER as DEPLOYER
from watchword.admin.workloads import await_deployments, choose_image, operator_objects
from watchword.api import bootstrap, resources
from watchword.api.conditions import find_condition
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, mapping_at
from watchword.api.names import HUB_NAMESPACE, IMAGE, Annotation
from watchword.api.rbac import rules_of
from watchword.credentials.driver import DRIVER_LIST, Settings, Side, empty_other_paths, settings_to_spec
from watchword.discovery.cluster_info import ClusterInfo, fetch_cluster_info, read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.setup import FIELD_MANAGER, REQUESTERS_BINDING, DiscoverySetup, discovery_manifests
from watchword.discovery.token_secret import TokenRecord
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.operator.cluster_manager import CLUSTER_MANAGER, enabled_servers, hub_manifests, hub_settings
from watchword.operator.conditions import is_enabled
from watchword.operator.rendering import OPERATOR, cluster_role_with_binding, service_account
from watchword.processes.hub import HUB_LEASE
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.hub import installation
from watchword.registration.hub.installation import EXECUTOR_GATE
from watchword.runtime.manifests import is_own_definition

AGENT_TO_HUB = "agentToHub"
"""What an address of a driver's server is for, as Open Cluster Management says it."""


class HubSetup(Struct, frozen=True):
    """The wanted settings of a hub; what is empty or None stays as it is, or takes its default on a new hub."""

    info: ClusterInfo  # published to joining clusters
    drivers: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)  # of the drivers
    gates: Mapping[str, bool] = field(default_factory=dict)
    image: str = ""
    retention: str = ""  # how long clusters that left are kept
    deploy: bool | None = None  # False where the controllers run elsewhere
    approve_nodes: bool | None = None  # kubelets with a node token get their certificate without a person
    present: Object = field(default_factory=dict)  # the ClusterManager that is there already
    catalog: Catalog = CATALOG

    @property
    def discovery(self) -> DiscoverySetup:
        nodes = (bootstrap.NODE_GROUP,) if self.approve_nodes else ()
        return DiscoverySetup(self.info, requesters=(bootstrap.MANAGED_CLUSTER_GROUP, *nodes), approve_nodes_of=nodes)

    @property
    def spec(self) -> Object:
        named: Object = {"registrationConfiguration": named_registration(self)}
        rows = [(option.exposure, option.read_list(self.settings)) for option in self.catalog.options(Side.HUB)]
        exposed = [
            {"protocol": protocol, "usage": AGENT_TO_HUB, protocol: {"type": "hostname", "hostname": {"host": host}}}
            for protocol, hosts in rows
            for host in (hosts if protocol else ())
        ]
        if exposed:
            named["serverConfiguration"] = {"endpointsExposure": exposed}
        if self.image:
            named["imagePullSpec"] = self.image
        return keep_unnamed(keep_unnamed({"imagePullSpec": IMAGE}, self.kept), named)

    @property
    def kept(self) -> Object:
        """What the ClusterManager that is there says in the fields that `init` sets."""
        stored = [path[0] for option in self.catalog.options(Side.HUB) for path in option.paths]
        registration: dict[str, Mapping[str, Any]] = {name: {} for name in (DRIVER_LIST, "featureGates", *stored)}
        fields = {"imagePullSpec": {}, "serverConfiguration": {}, "registrationConfiguration": registration}
        kept = select_settings(self.present.get("spec") or {}, fields)
        if "registrationConfiguration" in kept:
            kept["registrationConfiguration"] = self._kept_registration(kept["registrationConfiguration"])
        return kept

    def _kept_registration(self, present: Object) -> Object:
        """Return the entries under the drivers' own names, with nothing in other fields of what is named."""
        found = present.get(DRIVER_LIST) or []
        rows = [{**row, "authType": self._own_name(str(row.get("authType") or ""))} for row in found]
        kept = {**present, **({DRIVER_LIST: rows} if rows else {})}
        return empty_other_paths(self.catalog.options(Side.HUB), self.settings, kept)

    def _own_name(self, name: str) -> str:
        """Return a driver's own name for an alias; a name that is unknown here stays."""
        return next((driver.name for driver in self.catalog.known([name or self.catalog.default])), name)

    @property
    def chosen_drivers(self) -> tuple[str, ...]:
        return self.drivers or enabled_drivers({"spec": self.kept}) or (self.catalog.default,)


def enabled_drivers(manager: Object) -> tuple[str, ...]:
    """Return the drivers that a ClusterManager enables, as it spells them; none when it names none."""
    rows = ((manager.get("spec") or {}).get("registrationConfiguration") or {}).get(DRIVER_LIST) or []
    return tuple(str(row["authType"]) for row in rows)


def named_registration(setup: HubSetup) -> Object:
    """Return what is asked for about registration; an entry of a driver keeps what is not named."""
    catalog, settings = setup.catalog, setup.settings
    registration = settings_to_spec(catalog.options(Side.HUB), settings)
    registration[DRIVER_LIST] = [
        {"authType": name, **settings_to_spec(catalog.options(Side.HUB, name), settings).get(DRIVER_LIST, {})}
        for name in setup.chosen_drivers
    ]
    if setup.gates:
        registration["featureGates"] = [
            {"feature": name, "mode": "Enable" if on else "Disable"} for name, on in sorted(setup.gates.items())
        ]
    return registration


async def read_present(client: Client, setup: HubSetup) -> HubSetup:
    """Return the setup over what an earlier run left on this cluster; `InvalidInput` when settings contradict."""
    found = await client.find(resources.CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER))
    deploy, nodes = setup.deploy, setup.approve_nodes
    if deploy is None:  # a ClusterManager without an operator: its controllers run elsewhere
        deploy = found is None or await client.find(resources.DEPLOYMENTS, OPERATOR) is not None
    if nodes is None:
        binding = await client.find(resources.CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(REQUESTERS_BINDING))
        nodes = any(subject.get("name") == bootstrap.NODE_GROUP for subject in (binding or {}).get("subjects") or [])
    merged = replace(setup, present=found or {}, deploy=deploy, approve_nodes=nodes)
    if deploy and not (merged.image or merged.kept.get("imagePullSpec")):
        merged = replace(merged, image=await choose_image(client))
    manager, catalog = cluster_manager(merged), merged.catalog
    settings = hub_settings(manager, catalog)
    ungated = [
        f"{option.flag} has an effect only with --feature-gates {option.gate}=true: add it"
        for option in catalog.options(Side.HUB)
        if option.gate and option.read(settings) and not is_enabled(manager, option.gate)
    ]
    objections = [*catalog.validate(Side.HUB, settings, *merged.chosen_drivers), *ungated]
    if objections:
        raise InvalidInput("; ".join(objections))
    return merged


def cluster_manager(setup: HubSetup) -> Object:
    retention = setup.retention or annotations_of(setup.present).get(Annotation.LEFT_CLUSTER_RETENTION, "")
    metadata = {"annotations": {Annotation.LEFT_CLUSTER_RETENTION: retention}} if retention else {}
    return resources.CLUSTER_MANAGERS.manifest(ObjectKey.cluster(CLUSTER_MANAGER), metadata=metadata, spec=setup.spec)


def hub_objects(setup: HubSetup, *, published: bool = False, managed: bool = True) -> list[Manifest]:
    """Return what a hub has beside its prerequisites, in an order in which it can be applied."""
    manager = [(resources.CLUSTER_MANAGERS, cluster_manager(setup))] if managed else []
    found = [row for row in discovery_manifests(setup.discovery) if not (published and row[0] is resources.CONFIG_MAPS)]
    servers = [] if setup.deploy else undeployed_server_objects(cluster_manager(setup), setup.catalog)
    return [*found, *manager, *servers]


def undeployed_server_objects(manager: Object, catalog: Catalog) -> list[Manifest]:
    """Return the accounts and rights of servers that run elsewhere than where an operator would deploy them."""
    rows: list[Manifest] = []
    for server in enabled_servers(manager, catalog):
        account = ObjectKey(HUB_NAMESPACE, server.service_account)
        rows.append(service_account(account.name, account.namespace))
        rows += cluster_role_with_binding(server.role, rules_of(server.rules), account)
    return rows


async def set_up_hub(client: Client, setup: HubSetup, *, dry_run: bool = False) -> list[str]:
    """Apply every object; an equivalent cluster-info is left unchanged.

    A ClusterManager of another system is left alone, and its hub is not ours to deploy: `OperationRefused`.
    """
    setup = await read_present(client, setup)
    foreign = await has_foreign_manager(client)
    if foreign and setup.deploy:
        raise OperationRefused(
            "another system's operator carries out the ClusterManager of this cluster: stop the controllers that it "
            "deploys, run `watchword init --no-deploy`, and then `watchword hub` where you run controllers"
        )
    own = hub_objects(setup, published=await is_published(client, setup.info), managed=not foreign)
    # The hub's controllers apply their prerequisites too: one field manager, lest two hold what one lets go.
    wanted = list(installation.manifests(demands_executor=is_enabled(cluster_manager(setup), EXECUTOR_GATE)))
    held = {(resource, ObjectKey.of(obj)) for resource, obj in wanted}
    operator = await operator_objects(client, str(setup.spec["imagePullSpec"]), hub=True) if setup.deploy else []
    deployed = [(resource, obj) for resource, obj in operator if (resource, ObjectKey.of(obj)) not in held]
    rows = ((wanted, installation.FIELD_MANAGER), (deployed, DEPLOYER), (own, FIELD_MANAGER))
    applied = [await apply_all(client, part, manager=manager, dry_run=dry_run) for part, manager in rows]
    return [name for names in applied for name in names]


async def has_foreign_manager(client: Client) -> bool:
    key = ObjectKey.cluster(resources.CLUSTER_MANAGERS.group_resource)
    found = await client.find(resources.CUSTOM_RESOURCE_DEFINITIONS, key)
    return found is not None and not is_own_definition(found, DEPLOYER)


async def is_published(client: Client, info: ClusterInfo) -> bool:
    """Whether cluster-info has exactly this content; another tool may format it differently."""
    try:
        return read_cluster_info((await fetch_cluster_info(client)).text) == info
    except (KubeError, ClusterInfoRefused):
        return False


async def await_hub(waiter: ObjectWaiter, setup: HubSetup, record: TokenRecord | None) -> None:
    """Return once the controllers run and have signed for the token; `NotReady` otherwise."""
    if setup.deploy:
        rows = hub_manifests(cluster_manager(setup))
        deployed = [ObjectKey.of(obj) for resource, obj in rows if resource is resources.DEPLOYMENTS]
        await await_deployments(waiter.client, (OPERATOR,), waiter.patience, waiter.progress)
        advice = "`watchword logs operator` shows why it does not apply it"
        key = ObjectKey.cluster(CLUSTER_MANAGER)
        await waiter.until(resources.CLUSTER_MANAGERS, key, validate_applied, advice=advice)
        await await_deployments(waiter.client, deployed, waiter.patience, waiter.progress)
        advice = "`watchword logs hub` shows why no replica leads"
        await waiter.until(resources.LEASES, HUB_LEASE, validate_led, advice=advice)
    if record is not None:
        advice = "is `watchword hub` running for this cluster? Its log says why it does not sign"
        signed = partial(validate_signed, record.token.id)
        await waiter.until(resources.CONFIG_MAPS, bootstrap.CLUSTER_INFO, signed, advice=advice)


def validate_applied(manager: Object | None) -> str:
    found = manager or {}
    applied, status = find_condition(found, "Applied"), found.get("status") or {}
    if applied is not None and applied.status == "False":
        return f"the operator cannot apply ClusterManager {CLUSTER_MANAGER}: {applied.message}"
    observed = int(status.get("observedGeneration") or 0)
    if applied is None or observed < int((found.get("metadata") or {}).get("generation") or 0):
        return f"the operator has not applied ClusterManager {CLUSTER_MANAGER} yet"
    return ""


def validate_led(lease: Object | None) -> str:
    return "" if mapping_at(lease or {}, "spec").get("holderIdentity") else "no replica of the hub leads yet"


def validate_signed(token_id: str, found: Object | None) -> str:
    if found is None:
        return "cluster-info is not published"
    refusal = annotations_of(found).get(bootstrap.ANNOTATION_SIGNING_REFUSED)
    if refusal:
        return f"cluster-info is not signed because {refusal}"
    signed = (found.get("data") or {}).get(bootstrap.SIGNATURE_PREFIX + token_id)
    return "" if signed else f"cluster-info is not signed for token {token_id} yet"
