"""Everything an administrator applies once: kinds, namespaces, roles, the operator, and what it should deploy."""

from msgspec import Struct, field

from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.bootstrap import CLUSTER_INFO, TOKEN_SECRET_NAMESPACE
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.names import (
    ADDON_GROUP,
    AGENT_NAMESPACE,
    BOOTSTRAP_NAMESPACE,
    CLUSTER_GROUP,
    HUB_NAMESPACE,
    IMAGE,
    WORK_GROUP,
    Label,
)
from watchword.api.rbac import RbacRule, rules_of
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, RBAC_GROUP
from watchword.kube.client import Client
from watchword.operator import rbac as rules
from watchword.operator import rendering
from watchword.operator.cluster_manager import CONTROLLER
from watchword.operator.klusterlet import addon_namespace
from watchword.operator.rbac import ACCOUNTS_ROLE, APPLY, DEFINITIONS, ELECTION_RIGHTS, READ
from watchword.registration.catalog import CATALOG
from watchword.runtime.manifests import establish_crds

MANAGER = ObjectKey(HUB_NAMESPACE, f"{ADDON_NAME}-addon-manager")
ADDON_ROLE = f"open-cluster-management:watchword:{ADDON_NAME}"
MANAGER_ROLE = f"{ADDON_ROLE}-manager"
_PLURAL = MANAGED_SERVICE_ACCOUNTS.plural

ACCOUNTS_RIGHTS = (
    RbacRule(
        "tokens are in Secrets of clusters and teams; RBAC cannot grant Secrets by label, so the watch selects it",
        "",
        ("secrets",),
        (*READ, "create", "update", "patch", "delete"),
    ),
    RbacRule("rights of accounts are recorded there", "", ("configmaps",), READ, (f"{ADDON_NAME}-grants",)),
    RbacRule("accounts of sets are replicated to clusters", MANAGED_SERVICE_ACCOUNTS.group, (_PLURAL,), ("create",)),
    *(
        RbacRule("accounts are held until they are revoked", kind.group, (_PLURAL,), (*READ, "patch", "delete"))
        for kind in ACCOUNT_KINDS
    ),
    *(
        RbacRule("status is written, by agents too", kind.group, (f"{_PLURAL}/status",), ("get", "patch", "update"))
        for kind in ACCOUNT_KINDS
    ),
)
"""What a hub may do besides its own rights once it serves accounts."""

MANAGER_RIGHTS = (
    *ACCOUNTS_RIGHTS,
    RbacRule(
        "accounts follow clusters and sets",
        CLUSTER_GROUP,
        ("managedclusters", "managedclustersets", "managedclustersetbindings"),
        READ,
    ),
    RbacRule(
        "the add-on is in the list of add-ons", ADDON_GROUP, ("clustermanagementaddons",), ("get", "create", "patch")
    ),
    RbacRule("the add-on is installed where it is enabled", ADDON_GROUP, ("managedclusteraddons",), (*READ, "patch")),
    RbacRule("the add-on's state is reported", ADDON_GROUP, ("managedclusteraddons/status",), ("patch",)),
    RbacRule("the agent is installed by work", WORK_GROUP, ("manifestworks",), (*READ, *APPLY)),
    RbacRule(
        "agents get rights in the namespace of their cluster", RBAC_GROUP, ("roles", "rolebindings"), (*READ, *APPLY)
    ),
    RbacRule("grants name roles of administrators", RBAC_GROUP, ("clusterroles",), READ),
    RbacRule("agents request certificates", "certificates.k8s.io", ("certificatesigningrequests",), READ),
    RbacRule("agents may have tokens of service accounts", "", ("serviceaccounts",), READ),
    RbacRule("events are recorded", "events.k8s.io", ("events",), ("create", "patch")),
    RbacRule(
        "the kinds are installed", "apiextensions.k8s.io", ("customresourcedefinitions",), ("get", "create", "patch")
    ),
    RbacRule(
        "agents write no other Secrets",
        "admissionregistration.k8s.io",
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("get", "create", "patch"),
    ),
)
"""What a manager of its own may do: the same, and what a hub of ours may do anyway."""


def hub_service_rights() -> list[Manifest]:
    """Return what lets a hub serve accounts; the role is not the operator's, which a hub may be without."""
    return [*rendering.cluster_role_with_binding(ADDON_ROLE, rules_of(ACCOUNTS_RIGHTS), CONTROLLER)]


def manager_bundle(*, image: str = IMAGE) -> list[Manifest]:
    """Return the manager in the hub's namespace, which is not among it: to delete this must not delete the hub."""
    return [
        rendering.service_account(MANAGER.name, MANAGER.namespace),
        *rendering.cluster_role_with_binding(MANAGER_ROLE, rules_of(MANAGER_RIGHTS), MANAGER),
        *rendering.role_with_binding(ObjectKey(MANAGER.namespace, MANAGER_ROLE), rules_of(ELECTION_RIGHTS), MANAGER),
        rendering.deployment(
            rendering.Workload(
                key=MANAGER,
                image=image,
                arguments=[ADDON_NAME, "--manager", f"--image={image}"],
                resources={"requests": {"cpu": "2m", "memory": "64Mi"}},
            )
        ),
    ]


DASHBOARD = ObjectKey(BOOTSTRAP_NAMESPACE, "watchword-dashboard")
DASHBOARD_ROLE = "watchword:dashboard"
PULL_SECRETS_ROLE = "watchword:dashboard-pull-secrets"
TOKENS_ROLE = "watchword:dashboard-join-tokens"
AUTHORITY_ROLE = "watchword:dashboard-authority"
PORT = 8080

DASHBOARD_RIGHTS = (
    RbacRule("asks whose token a person signs in with", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    RbacRule("asks what that person may see", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    RbacRule("shows clusters and their certificates", CLUSTER_GROUP, ("managedclusters",), READ),
    RbacRule("shows add-ons and their credentials", ADDON_GROUP, ("managedclusteraddons",), READ),
    RbacRule("shows who requested which certificate", "certificates.k8s.io", ("certificatesigningrequests",), READ),
    *(
        RbacRule("shows managed service accounts, without tokens", kind.group, (kind.plural,), READ)
        for kind in (resources.MANAGED_SERVICE_ACCOUNTS, resources.OCM_MANAGED_SERVICE_ACCOUNTS)
    ),
    RbacRule("shows what happened", "events.k8s.io", ("events",), READ),
    RbacRule("finds processes that do not run", "apps", ("deployments",), READ),
    RbacRule("finds pods that do not run, and namespaces without a cluster", "", ("pods", "namespaces"), READ),
    RbacRule("finds processes and agents that stopped", "coordination.k8s.io", ("leases",), READ),
    RbacRule("finds Jobs that do not end", "batch", ("jobs",), READ),
    RbacRule(
        "shows what the operator reports", resources.CLUSTER_MANAGERS.group, (resources.CLUSTER_MANAGERS.plural,), READ
    ),
    RbacRule(
        "finds a missing admission policy",
        resources.VALIDATING_ADMISSION_POLICIES.group,
        (resources.VALIDATING_ADMISSION_POLICIES.plural, resources.VALIDATING_ADMISSION_POLICY_BINDINGS.plural),
        READ,
    ),
)
"""What the dashboard reads everywhere; it writes nothing but reviews."""

AUTHORITY_RIGHTS = (
    RbacRule("shows when the hub's authority expires", "", ("configmaps",), READ, (CLUSTER_INFO.name,)),
)
"""What it reads in the namespace of cluster-info."""

TOKENS_RIGHTS = (
    RbacRule("shows join tokens, with --join-tokens; RBAC cannot grant Secrets by type", "", ("secrets",), READ),
)
"""What it reads in kube-system when join tokens are to be shown."""

PULL_SECRETS_RIGHTS = (
    RbacRule("shows pull secrets, with --pull-secrets; RBAC cannot grant Secrets by type", "", ("secrets",), READ),
)
"""What it reads everywhere when pull secrets are to be shown."""


class DashboardBundleOptions(Struct, frozen=True):
    """What differs from one installation to another."""

    image: str = IMAGE
    names: tuple[str, ...] = ()
    secure: bool = False
    join_tokens: bool = False
    pull_secrets: bool = False


def dashboard_bundle(options: DashboardBundleOptions) -> list[Manifest]:
    """Return the account, its rights, the Deployment and the Service; Secrets are readable only on request.

    The hub's namespace is not included, so that deleting these objects does not delete the operator.
    """
    authority, tokens = (
        ObjectKey(CLUSTER_INFO.namespace, AUTHORITY_ROLE),
        ObjectKey(TOKEN_SECRET_NAMESPACE, TOKENS_ROLE),
    )
    rows = [
        rendering.service_account(DASHBOARD.name, DASHBOARD.namespace),
        *rendering.cluster_role_with_binding(DASHBOARD_ROLE, rules_of(DASHBOARD_RIGHTS), DASHBOARD),
        *rendering.role_with_binding(authority, rules_of(AUTHORITY_RIGHTS), DASHBOARD),
    ]
    if options.join_tokens:
        rows += rendering.role_with_binding(tokens, rules_of(TOKENS_RIGHTS), DASHBOARD)
    if options.pull_secrets:
        rows += rendering.cluster_role_with_binding(PULL_SECRETS_ROLE, rules_of(PULL_SECRETS_RIGHTS), DASHBOARD)
    spec = {"selector": {"app": DASHBOARD.name}, "ports": [{"name": "http", "port": PORT, "targetPort": PORT}]}
    workload = rendering.Workload(
        key=DASHBOARD,
        image=options.image,
        arguments=[
            "dashboard",
            "--login",
            f"--serve=$(POD_IP),127.0.0.1:{PORT}",  # `kubectl port-forward` connects to loopback
            *(f"--name={name}" for name in options.names),
            "--https" if options.secure else "--insecure-http",  # TLS ends at a proxy in front of the Service
        ],
        replicas=1,  # sessions are in its memory
        resources={"requests": {"cpu": "10m", "memory": "96Mi"}},
    )
    return [*rows, rendering.labelled(resources.SERVICES, DASHBOARD, spec=spec), rendering.deployment(workload)]


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
    options, key = options or BundleOptions(), rendering.OPERATOR
    own = dict.fromkeys(options.namespaces, rules.OPERATOR_OWN_RIGHTS) | {key.namespace: rules.ELECTION_RIGHTS}
    workload = rendering.Workload(
        key=key,
        image=options.image,
        arguments=["operator", f"--namespace={key.namespace}"],
        replicas=options.pods.replicas,
        pod=options.pods.fields,
        resources=options.pods.resources or {"requests": {"cpu": "2m", "memory": "64Mi"}},
    )
    return [
        *((resources.CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in DEFINITIONS),
        *map(rendering.namespace, (key.namespace, *options.namespaces)),
        *_deployable_roles(options),
        rendering.service_account(key.name, key.namespace),
        *rendering.cluster_role_with_binding(rules.OPERATOR_ROLE, rules_of(rules.OPERATOR_RIGHTS), key),
        *(
            row
            for namespace, rights in own.items()
            for row in rendering.role_with_binding(ObjectKey(namespace, rules.OPERATOR_OWN_ROLE), rules_of(rights), key)
        ),
        rendering.deployment(workload),
        *options.access.rows(key),
    ]


def _deployable_roles(options: BundleOptions) -> list[Manifest]:
    """Return the roles that the operator binds, and what the hub may do with tokens."""
    rows: list[Manifest] = []
    if options.for_agent:
        rows.append(_operator_role(rules.AGENT_ROLE, rules=list(rules.AGENT_RULES)))
        rows.append(_operator_role(rules.AGENT_OWN_ROLE, rules=rules_of(rules.AGENT_OWN_RIGHTS)))
    if not options.for_hub:
        return rows
    roles = {rules.HUB_ROLE: rules.HUB_RIGHTS, rules.CLEANER_ROLE: rules.CLEANER_RIGHTS}
    roles |= {name: found for server in CATALOG.servers for name, found in server.roles.items()}
    roles[ACCOUNTS_ROLE] = ACCOUNTS_RIGHTS
    rows += [_operator_role(name, rules=rules_of(found)) for name, found in roles.items()]
    for namespace, rights in (("kube-system", rules.HUB_TOKENS_RIGHTS), ("kube-public", rules.HUB_INFO_RIGHTS)):
        rows += rendering.role_with_binding(ObjectKey(namespace, rules.HUB_TOKENS_ROLE), rules_of(rights), CONTROLLER)
    return [*rows, *_addon_grants()]


def _addon_grants() -> list[Manifest]:
    """Return the role with which the hub holds, and so may give to add-ons, what administrators labelled for that.

    The API server keeps its rules; a manifest with rules would remove them with each apply.
    """
    selected = {"clusterRoleSelectors": [{"matchLabels": {Label.ADDON_GRANTABLE: "true"}}]}
    name = rules.HUB_GRANTS_ROLE
    return [_operator_role(name, aggregationRule=selected), rendering.cluster_binding(name, name, CONTROLLER)]


def _operator_role(name: str, **fields: object) -> Manifest:
    return rendering.labelled(resources.CLUSTER_ROLES, ObjectKey.cluster(name), rendering.OPERATOR.name, **fields)
