"""Everything an administrator applies once: kinds, namespaces, roles, the operator, and what it should deploy."""

from msgspec import Struct, field

from watchword.api import resources
from watchword.api.crds import MANAGED_CRDS
from watchword.api.crds.operator import CLUSTER_MANAGER
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE, IMAGE, Label
from watchword.api.rbac import rules_of
from watchword.kube.client import Client
from watchword.operator import rbac as rules
from watchword.operator import rendering
from watchword.operator.account_manifests import ACCOUNTS_RIGHTS
from watchword.operator.cluster_manager_manifests import CONTROLLER
from watchword.operator.klusterlet_manifests import addon_namespace, namespace_of
from watchword.registration.catalog import CATALOG
from watchword.runtime.manifests import establish_crds

DEFINITIONS: tuple[Object, ...] = (*MANAGED_CRDS, CLUSTER_MANAGER)


async def install_crds(client: Client) -> None:
    """Apply the definitions that are missing or differ, and wait until their kinds are served."""
    await establish_crds(client, DEFINITIONS, manager=rendering.MANAGED_BY)


class BundleOptions(Struct, frozen=True):
    """What differs from one installation to another."""

    image: str = IMAGE
    agent_namespace: str = AGENT_NAMESPACE
    for_hub: bool = True
    for_agent: bool = True
    more_agent_namespaces: tuple[str, ...] = ()  # of a cluster that belongs to several hubs
    pods: rendering.PodSettings = field(default_factory=rendering.PodSettings)  # of the operator
    access: rendering.WorkloadAccess = field(default_factory=rendering.WorkloadAccess)

    @property
    def namespaces(self) -> tuple[str, ...]:
        agents = (self.agent_namespace, *self.more_agent_namespaces) if self.for_agent else ()
        places = tuple(place for name in agents for place in (name, addon_namespace(name)))
        return (*places, *((HUB_NAMESPACE,) if self.for_hub else ()))


def operator_bundle(options: BundleOptions | None = None) -> list[Manifest]:
    """Return the kinds, namespaces and roles, and the operator itself, in an order in which they can be applied."""
    options = options or BundleOptions()
    return [
        *((resources.CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in DEFINITIONS),
        *(
            (resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(name)))
            for name in (rendering.OPERATOR.namespace, *options.namespaces)
        ),
        *_deployable_roles(options),
        rendering.service_account(rendering.OPERATOR.name, rendering.OPERATOR.namespace),
        *_operator_rights(options),
        _operator_deployment(options),
        *options.access.rows(rendering.OPERATOR),
    ]


def hub_bundle(manager: Object | None = None, options: BundleOptions | None = None) -> list[Manifest]:
    options = options or BundleOptions(for_agent=False)
    wanted = manager or resources.CLUSTER_MANAGERS.manifest(
        ObjectKey.cluster("cluster-manager"), spec={"imagePullSpec": options.image}
    )
    controllers = ObjectKey(HUB_NAMESPACE, f"{wanted['metadata']['name']}-controller")
    return [*operator_bundle(options), *options.access.rows(controllers), (resources.CLUSTER_MANAGERS, wanted)]


def agent_bundle(klusterlet: Object, options: BundleOptions | None = None) -> list[Manifest]:
    """Return the operator and its Klusterlet; the bootstrap Secret is created by the joining user."""
    options = options or BundleOptions(for_hub=False)
    agent = ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-agent")
    return [*operator_bundle(options), *options.access.rows(agent), (resources.KLUSTERLETS, klusterlet)]


def _deployable_roles(options: BundleOptions) -> list[Manifest]:
    """Return the roles that the operator binds, and what the hub may do with tokens."""
    roles: dict[str, list[Object]] = {}
    if options.for_agent:
        roles |= {rules.AGENT_ROLE: rules.AGENT_RULES, rules.AGENT_OWN_ROLE: rules.AGENT_OWN_RULES}
    if options.for_hub:
        roles |= {rules.HUB_ROLE: rules.HUB_RULES, rules.CLEANER_ROLE: rules.CLEANER_RULES}
        roles |= {name: rules_of(found) for server in CATALOG.servers for name, found in server.roles.items()}
        roles |= {rules.ACCOUNTS_ROLE: rules_of(ACCOUNTS_RIGHTS)}
    rows: list[Manifest] = [
        (
            resources.CLUSTER_ROLES,
            resources.CLUSTER_ROLES.manifest(
                ObjectKey.cluster(name),
                metadata={"labels": rendering.labels_for(rendering.OPERATOR.name)},
                rules=list(rows),
            ),
        )
        for name, rows in roles.items()
    ]
    own = {"kube-system": rules.HUB_TOKENS_RIGHTS, "kube-public": rules.HUB_INFO_RIGHTS} if options.for_hub else {}
    for namespace, rights in own.items():
        rows += rendering.role_with_binding(ObjectKey(namespace, rules.HUB_TOKENS_ROLE), rules_of(rights), CONTROLLER)
    return [*rows, *_addon_grants()] if options.for_hub else rows


def _addon_grants() -> list[Manifest]:
    """Return the role with which the hub holds, and so may give to add-ons, what administrators labelled for that.

    The API server keeps its rules; a manifest with rules would remove them with each apply.
    """
    selected = {"clusterRoleSelectors": [{"matchLabels": {Label.ADDON_GRANTABLE: "true"}}]}
    key, metadata = ObjectKey.cluster(rules.HUB_GRANTS_ROLE), {"labels": rendering.labels_for(rendering.OPERATOR.name)}
    role = resources.CLUSTER_ROLES.manifest(key, metadata=metadata, aggregationRule=selected)
    return [(resources.CLUSTER_ROLES, role), rendering.cluster_binding(key.name, key.name, CONTROLLER)]


def _operator_rights(options: BundleOptions) -> list[Manifest]:
    everywhere = rules_of(rules.OPERATOR_RIGHTS)
    rows: list[Manifest] = list(
        rendering.cluster_role_with_binding(rules.OPERATOR_ROLE, everywhere, rendering.OPERATOR)
    )
    for namespace in options.namespaces:
        own = rules_of(rules.OPERATOR_OWN_RIGHTS)
        rows += rendering.role_with_binding(ObjectKey(namespace, rules.OPERATOR_OWN_ROLE), own, rendering.OPERATOR)
    election = rules_of(rules.ELECTION_RIGHTS)
    rows += rendering.role_with_binding(
        ObjectKey(rendering.OPERATOR.namespace, rules.OPERATOR_OWN_ROLE), election, rendering.OPERATOR
    )
    return rows


def _operator_deployment(options: BundleOptions) -> Manifest:
    return rendering.deployment(
        rendering.Workload(
            key=rendering.OPERATOR,
            image=options.image,
            arguments=["operator", f"--namespace={rendering.OPERATOR.namespace}"],
            replicas=options.pods.replicas,
            pod=options.pods.fields,
            resources=options.pods.resources or {"requests": {"cpu": "2m", "memory": "64Mi"}},
        )
    )
