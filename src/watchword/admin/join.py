"""What a cluster needs to join a hub, as `join` applies it, and how to see that it has."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.apply import apply_all, keep_unnamed, select_settings
from watchword.admin.bootstrap_access import BootstrapAccess
from watchword.admin.errors import InvalidInput, NotReady, OperationRefused
from watchword.admin.workloads import FIELD_MANAGER as DEPLOYER
from watchword.admin.workloads import choose_image, operator_objects
from watchword.api import resources
from watchword.api.conditions import find_condition, is_true
from watchword.api.crds import MANAGED_CRDS
from watchword.api.meta import Manifest, Object, ObjectKey, uid_of
from watchword.api.names import AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET, IMAGE, ConditionType
from watchword.api.sensitive import Sensitive
from watchword.credentials.credential_secret import decode_data, encode_data
from watchword.credentials.driver import (
    DriverOption,
    SecretData,
    Settings,
    Side,
    settings_from_spec,
    settings_to_spec,
    validate_options,
)
from watchword.discovery.discover import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.health.processes import DeploymentProblem, find_deployment_problem
from watchword.health.states import is_accepted, is_denied
from watchword.kube.client import Client
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig_files import encode_kubeconfig
from watchword.operator.conditions import AGENT_REASONS, HUB_CONNECTION_DEGRADED
from watchword.operator.klusterlet import agent_deployment
from watchword.operator.rendering import OPERATOR
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import BringsBootstrapData, ClusterDriver, ReachesServer

FIELD_MANAGER = "watchword-join"
KLUSTERLET = "klusterlet"
KUBECONFIG_KEY = "kubeconfig"
DEFAULTS: Object = {"namespace": AGENT_NAMESPACE, "imagePullSpec": IMAGE, "deployOption": {"mode": "Singleton"}}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "clusterName": {},
    "namespace": {},
    "imagePullSpec": {},
    "deployOption": {"mode": {}},
}
REGISTRATION_SETTINGS = (
    "registrationDriver",
    "addOnKubeClientRegistrationDriver",
    "clusterLabels",
    "clusterAnnotations",
    "featureGates",
)
"""The fields of a Klusterlet that `join` sets, besides those of the drivers' options."""


class ClusterMembership(Struct, frozen=True):
    """How this cluster belongs to one hub; what is empty or None stays as it is, or takes its default."""

    cluster: str
    klusterlet: str = KLUSTERLET  # another one for each further hub
    namespace: str = ""
    image: str = ""
    registration_auth: str = ""
    addon_auth: str = ""
    settings: Settings = field(default_factory=dict)  # of the drivers
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    present: Object = field(default_factory=dict)  # the Klusterlet that is there already
    catalog: Catalog = CATALOG

    @property
    def spec(self) -> Object:
        registration = {"registrationDriver": {"authType": self.catalog.default}}
        defaults = {**DEFAULTS, "registrationConfiguration": registration}
        return keep_unnamed(keep_unnamed(defaults, self.kept), named_settings(self))

    @property
    def kept(self) -> Object:
        """What the Klusterlet that is there says in the fields that `join` sets."""
        stored = [path[0] for option in _agent_options(self.catalog) for path in option.paths]
        registration: dict[str, Mapping[str, Any]] = {name: {} for name in (*REGISTRATION_SETTINGS, *stored)}
        return select_settings(self.present.get("spec") or {}, {**SETTINGS, "registrationConfiguration": registration})

    @property
    def agent_namespace(self) -> str:
        return str(self.spec["namespace"])

    @property
    def registration_driver(self) -> str:
        return str(self.spec["registrationConfiguration"]["registrationDriver"]["authType"])


def named_settings(membership: ClusterMembership) -> Object:
    """Return the settings that were given; others keep their present value, or the agent's default."""
    catalog, auth = membership.catalog, membership.registration_auth
    gates = [{"feature": f, "mode": "Enable" if on else "Disable"} for f, on in sorted(membership.gates.items())]
    drivers = settings_to_spec(_agent_options(catalog), membership.settings)
    cluster = {"authType": catalog.find(auth).name} if auth else {}
    addon = {"authType": membership.addon_auth} if membership.addon_auth else {}
    registration: Object = {
        **drivers,
        "registrationDriver": {**cluster, **drivers.get("registrationDriver", {})},
        "addOnKubeClientRegistrationDriver": {**addon, **drivers.get("addOnKubeClientRegistrationDriver", {})},
        "clusterLabels": dict(membership.labels),
        "clusterAnnotations": dict(membership.annotations),
        "featureGates": gates,
    }
    named = {
        "clusterName": membership.cluster,
        "namespace": membership.namespace,
        "imagePullSpec": membership.image,
        "registrationConfiguration": {
            name: value for name, value in registration.items() if (value is not None and value not in ({}, []))
        },
    }
    return {name: value for name, value in named.items() if value}


def klusterlet_manifest(membership: ClusterMembership) -> Object:
    return resources.KLUSTERLETS.manifest(ObjectKey.cluster(membership.klusterlet), spec=membership.spec)


def bootstrap_secret(namespace: str, access: BootstrapAccess, beside: SecretData) -> Object:
    """Return the Secret by which the agent first reaches the hub, with what drivers add to it."""
    key = ObjectKey(namespace, BOOTSTRAP_KUBECONFIG_SECRET)
    data = {**beside, KUBECONFIG_KEY: encode_kubeconfig(access.kubeconfig)}
    return resources.SECRETS.manifest(key, type="Opaque", data=encode_data(data))


async def read_bootstrap_data(client: Client, namespace: str) -> SecretData:
    return decode_data(await client.find(resources.SECRETS, ObjectKey(namespace, BOOTSTRAP_KUBECONFIG_SECRET)))


def bring_bootstrap_data(
    driver: ClusterDriver, settings: Settings, token: Sensitive[str], present: SecretData
) -> SecretData:
    """Return what a driver stores in the bootstrap Secret beside the kubeconfig; `ConfigError` for a bad flag."""
    return driver.bootstrap_data(settings, token, present) if isinstance(driver, BringsBootstrapData) else {}


def choose_bootstrap_data(membership: ClusterMembership, access: BootstrapAccess, present: SecretData) -> SecretData:
    """Return what the driver keeps beside the kubeconfig; `InvalidInput` when a flag is missing or wrong."""
    catalog, driver = membership.catalog, membership.registration_driver
    try:
        data = bring_bootstrap_data(catalog.by_name[driver], membership.settings, access.token, present)
    except ConfigError as cause:
        raise InvalidInput(str(cause)) from cause
    needed = [option.flag for option in catalog.options(Side.JOIN, driver) if option.required]
    if needed and not data:
        raise InvalidInput(f"{needed[0]} is missing: the driver {driver} requires it")
    return data


async def find_server_problem(client: Client, membership: ClusterMembership) -> str:
    """Return why the driver's own server does not answer from this machine; empty when it does, or there is none."""
    driver = membership.catalog.by_name[membership.registration_driver]
    data = await read_bootstrap_data(client, membership.agent_namespace)
    return await driver.find_server_problem(data) if isinstance(driver, ReachesServer) and data else ""


def prerequisite_objects(membership: ClusterMembership) -> list[Manifest]:
    """Return what a membership stands on; with an operator, that brings it along."""
    return [
        *((resources.CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in MANAGED_CRDS),
        (resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(membership.agent_namespace))),
    ]


async def join(
    client: Client,
    membership: ClusterMembership,
    access: BootstrapAccess,
    *,
    deploy: bool | None = None,
    dry_run: bool = False,
) -> list[str]:
    """Apply every object; `OperationRefused` when this cluster already belongs to a hub under another name.

    Without `deploy`, an agent that runs elsewhere is kept.
    """
    membership = await with_present(client, membership)
    known_as = str((membership.present.get("spec") or {}).get("clusterName") or membership.cluster)
    if known_as != membership.cluster:
        raise OperationRefused(
            f"this cluster joined as {known_as}: run `watchword unjoin --cluster-name {known_as}` first, or give "
            "--klusterlet-name and --namespace to join a second hub"
        )
    if deploy is None:
        deploy = not membership.present or await client.find(resources.DEPLOYMENTS, OPERATOR) is not None
    if deploy:
        if not (membership.image or (membership.present.get("spec") or {}).get("imagePullSpec")):
            membership = replace(membership, image=await choose_image(client))
        image, namespace = str(membership.spec["imagePullSpec"]), membership.agent_namespace
        rows, manager = await operator_objects(client, image, agent_namespace=namespace), DEPLOYER
    else:
        rows, manager = prerequisite_objects(membership), FIELD_MANAGER
    present = await read_bootstrap_data(client, membership.agent_namespace)
    beside = choose_bootstrap_data(membership, access, present)
    own = [
        (resources.SECRETS, bootstrap_secret(membership.agent_namespace, access, beside)),
        (resources.KLUSTERLETS, klusterlet_manifest(membership)),
    ]
    applied = await apply_all(client, rows, manager=manager, dry_run=dry_run)
    return applied + await apply_all(client, own, manager=FIELD_MANAGER, dry_run=dry_run)


async def with_present(client: Client, membership: ClusterMembership) -> ClusterMembership:
    """Return the membership with what an earlier run left on this cluster; `InvalidInput` when settings contradict."""
    present = await client.find(resources.KLUSTERLETS, ObjectKey.cluster(membership.klusterlet))
    merged = replace(membership, present=present or {})
    objections = validate_membership(merged)
    if objections:
        raise InvalidInput("; ".join(objections))
    return merged


def validate_membership(membership: ClusterMembership) -> list[str]:
    registration, catalog = membership.spec["registrationConfiguration"], membership.catalog
    settings = settings_from_spec(_agent_options(catalog), registration)
    return [
        *catalog.validate(Side.CLUSTER, settings, membership.registration_driver),
        *validate_options(ADDON_CATALOG.options, settings),
    ]


def _agent_options(catalog: Catalog) -> tuple[DriverOption, ...]:
    return (*catalog.options(Side.CLUSTER), *ADDON_CATALOG.options)


async def cluster_uid(client: Client) -> str:
    return uid_of(await client.get(resources.NAMESPACES, ObjectKey.cluster("kube-system")))


def validate_joined(found: Object | None) -> str:
    if found is None:
        return "the agent has not created its ManagedCluster yet"
    name = found["metadata"]["name"]
    accepted = find_condition(found, ConditionType.HUB_ACCEPTED)
    if not is_accepted(found):
        return f"waiting for the hub's administrator: watchword accept {name}"
    if accepted is None or accepted.status != "True":
        return f"accepted; the hub has not granted the rights of {name} yet" + (
            f" ({accepted.message})" if accepted else ""
        )
    return "" if is_true(found, ConditionType.JOINED) else "accepted; the agent has not connected yet"


class JoinWait(Struct, frozen=True):
    """Waits until the hub says that this cluster has joined; names the pod that does not run meanwhile."""

    client: Client  # this cluster
    hub: Client  # with the bootstrap credential, which may read but not watch
    patience: timedelta
    progress: Progress = field(default=ignore_progress)

    async def run(self, membership: ClusterMembership) -> None:
        """Return once the cluster has joined; `NotReady` otherwise, `OperationRefused` once it is denied."""
        agent = ObjectKey.of(agent_deployment(klusterlet_manifest(membership))[1])

        async def look() -> None:
            found = await self.hub.find(resources.MANAGED_CLUSTERS, ObjectKey.cluster(membership.cluster))
            if found is not None and is_denied(found):
                raise OperationRefused(f"the hub's administrator denied cluster {membership.cluster}: ask them why")
            missing = validate_joined(found)
            if not missing:
                return
            shown = f"`watchword clusters show {membership.cluster}` on the hub, and the agent's log here"
            problem = await self._find_problem(agent, membership.klusterlet) if found is None else None
            if problem is not None:
                missing, shown = problem.reason, f"`{problem.command}`"
            raise PollAgain(missing, NotReady(f"{missing}: see {shown}"))

        await poll_until(look, PollOptions(self.patience, pause=timedelta(seconds=1)), self.progress)

    async def _find_problem(self, agent: ObjectKey, klusterlet: str) -> DeploymentProblem | None:
        if await self.client.find(resources.DEPLOYMENTS, OPERATOR) is None:  # the agent runs elsewhere
            return None
        for deployment in (OPERATOR, agent):
            problem = await find_deployment_problem(self.client, deployment)
            if problem is not None:
                return problem
        found = await self.client.find(resources.KLUSTERLETS, ObjectKey.cluster(klusterlet))
        said = find_condition(found or {}, HUB_CONNECTION_DEGRADED)
        if said is None or said.status != "True" or said.reason not in AGENT_REASONS:
            return None
        return DeploymentProblem(said.message, f"kubectl describe klusterlet {klusterlet}")
