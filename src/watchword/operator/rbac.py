"""Every right that our processes have on a cluster, each with its reason."""

from watchword.api.admission_policy import PolicyName
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.crds.operator import CLUSTER_MANAGER
from watchword.api.meta import Object
from watchword.api.names import (
    ADDON_GROUP,
    BOOTSTRAP_KUBECONFIG_SECRET,
    CLUSTER_GROUP,
    HUB_KUBECONFIG_SECRET,
    KUBE_CLIENT_SIGNER,
    OPERATOR_GROUP,
    REGISTER_GROUP,
    UNNAMED_EXECUTOR,
    WORK_GROUP,
)
from watchword.api.rbac import RbacRule, rules_of
from watchword.api.resources import RBAC_GROUP
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import AnnotatesHubAccount

READ = ("get", "list", "watch")
CHANGE = ("create", "update", "patch", "delete")
APPLY = ("create", "patch", "delete")
WRITE = (*READ, *CHANGE)
REPORT = ("patch", "update")

AGENT_ROLE = "open-cluster-management:watchword:agent"
AGENT_OWN_ROLE = "open-cluster-management:watchword:agent-own"
HUB_ROLE = "open-cluster-management:watchword:hub"
HUB_TOKENS_ROLE = "open-cluster-management:watchword:hub-tokens"
HUB_GRANTS_ROLE = "open-cluster-management:watchword:hub-addon-grants"
ACCOUNTS_ROLE = "open-cluster-management:watchword:accounts"
CLEANER_ROLE = "open-cluster-management:watchword:cluster-cleaner"
OPERATOR_ROLE = "open-cluster-management:watchword:operator"
OPERATOR_OWN_ROLE = "open-cluster-management:watchword:operator-own"
EXECUTION_ROLE = "admin"
"""The role with which work is applied; administrators bind more where their work needs it."""


def _install(reason: str, group: str, resources: tuple[str, ...], names: tuple[str, ...]) -> tuple[RbacRule, RbacRule]:
    """Return the rights to make objects and keep them as they should be; RBAC cannot grant `create` by name."""
    return RbacRule(reason, group, resources, ("create",)), RbacRule(reason, group, resources, ("get", "patch"), names)


AGENT_RIGHTS = (
    RbacRule("capacity is summed over the nodes", "", ("nodes",), READ),
    RbacRule("its UID identifies this cluster", "", ("namespaces",), ("get",), ("kube-system",)),
    RbacRule("claims are reported to the hub", CLUSTER_GROUP, ("clusterclaims",), READ),
    RbacRule("records list what a work has applied", WORK_GROUP, ("appliedmanifestworks",), (*READ, *APPLY)),
    RbacRule("records list what a work has applied", WORK_GROUP, ("appliedmanifestworks/status",), ("patch",)),
    RbacRule("work is applied as its executor may", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)
AGENT_RULES: list[Object] = [
    *rules_of(AGENT_RIGHTS),
    {"nonResourceURLs": ["/livez", "/healthz", "/version"], "verbs": ["get"]},
]
"""What the agent reads of its cluster, and the records it keeps."""

AGENT_OWN_RIGHTS = (
    RbacRule("credentials of the cluster and of add-ons are in Secrets", "", ("secrets",), (*READ, *APPLY)),
    RbacRule(
        "replicas elect a leader, add-ons renew leases", "coordination.k8s.io", ("leases",), (*READ, "create", "update")
    ),
    RbacRule("events are recorded", "events.k8s.io", ("events",), ("create", "patch")),
)
"""What it does in the namespaces that are its own."""

HUB_KINDS = tuple(definition["metadata"]["name"] for definition in (*HUB_CRDS, *ACCOUNT_CRDS))

HUB_RIGHTS = (
    RbacRule("clusters are accepted and removed; agents change theirs", CLUSTER_GROUP, ("managedclusters",), WRITE),
    RbacRule("the built-in sets are made", CLUSTER_GROUP, ("managedclustersets",), (*READ, "create", "patch")),
    RbacRule("sets are used in namespaces", CLUSTER_GROUP, ("managedclustersetbindings",), READ),
    RbacRule(
        "sets and their bindings are reported",
        CLUSTER_GROUP,
        ("managedclustersets/status", "managedclustersetbindings/status"),
        ("patch",),
    ),
    RbacRule("state is reported, by agents too", CLUSTER_GROUP, ("managedclusters/status",), REPORT),
    RbacRule("add-ons are installed", ADDON_GROUP, ("managedclusteraddons",), (*READ, *APPLY)),
    RbacRule("state is reported, by agents too", ADDON_GROUP, ("managedclusteraddons/status",), REPORT),
    RbacRule("built-in add-ons are listed", ADDON_GROUP, ("clustermanagementaddons",), (*READ, "create", "patch")),
    RbacRule("add-ons are reported", ADDON_GROUP, ("clustermanagementaddons/status",), ("patch",)),
    RbacRule("add-ons are described there", ADDON_GROUP, ("addontemplates", "addondeploymentconfigs"), READ),
    RbacRule("add-ons are deployed by works", WORK_GROUP, ("manifestworks",), WRITE),
    RbacRule("state is reported, by agents too", WORK_GROUP, ("manifestworks/status",), REPORT),
    RbacRule("works of add-ons have no executor", WORK_GROUP, ("manifestworks",), ("execute-as",), (UNNAMED_EXECUTOR,)),
    RbacRule(
        "clusters without a set enter the default one",
        CLUSTER_GROUP,
        ("managedclustersets/join",),
        ("create",),
        ("default",),
    ),
    RbacRule("add-ons follow placement decisions", CLUSTER_GROUP, ("placementdecisions",), READ),
    RbacRule("clusters are accepted by allow-list", REGISTER_GROUP, ("managedclusters/accept",), ("update",)),
    RbacRule("accepted clusters may renew", REGISTER_GROUP, ("managedclusters/clientcertificates",), ("renew",)),
    RbacRule(
        "each cluster has a namespace, add-ons have accounts", "", ("namespaces", "serviceaccounts"), (*READ, *APPLY)
    ),
    RbacRule("agents request tokens of add-ons", "", ("serviceaccounts/token",), ("create", "subscribe")),
    RbacRule(
        "what is published for joining clusters", "", ("configmaps",), ("get",), ("cluster-info", "kube-root-ca.crt")
    ),
    RbacRule("agents renew leases, replicas elect a leader", "coordination.k8s.io", ("leases",), (*READ, *CHANGE)),
    RbacRule("events are recorded", "", ("events",), ("create", "patch", "update")),
    RbacRule("events are recorded", "events.k8s.io", ("events",), ("create", "patch", "update")),
    RbacRule(
        "clusters and add-ons get rights of their own",
        RBAC_GROUP,
        ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
        (*READ, *APPLY),
    ),
    RbacRule(
        "agents request certificates, and surplus requests are deleted",
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        (*READ, "create", "delete"),
    ),
    RbacRule("certificates are approved", "certificates.k8s.io", ("certificatesigningrequests/approval",), ("update",)),
    RbacRule("certificates are approved", "certificates.k8s.io", ("signers",), ("approve",), (KUBE_CLIENT_SIGNER,)),
    RbacRule("a renewal is approved by RBAC", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    *_install(
        "no cluster accepts itself",
        "admissionregistration.k8s.io",
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        tuple(name.value for name in PolicyName),
    ),
    *_install("the kinds are installed", "apiextensions.k8s.io", ("customresourcedefinitions",), HUB_KINDS),
    RbacRule(
        "placements are followed once their kind is there",
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("list", "watch"),
        ("placementdecisions.cluster.open-cluster-management.io",),
    ),
    RbacRule("the guard checks as an ordinary user", "", ("users",), ("impersonate",), ("watchword:acceptance-probe",)),
    RbacRule("the guard checks as a joining cluster", "", ("groups",), ("impersonate",), (MANAGED_CLUSTER_GROUP,)),
)
"""What the controllers may do. They hand out only rights they hold themselves."""

HUB_TOKENS_RIGHTS = (
    RbacRule("tokens are checked, counted and removed in time", "", ("secrets",), (*READ, "patch", "delete")),
    *(rule for each in CATALOG.drivers if isinstance(each, AnnotatesHubAccount) for rule in each.hub_rules),
)
"""What they may do in kube-system: nowhere else do they see a Secret."""

HUB_INFO_RIGHTS = (
    RbacRule("cluster-info and the authority of the API server are published there", "", ("configmaps",), READ),
    RbacRule("cluster-info is signed for tokens", "", ("configmaps",), ("patch",), ("cluster-info",)),
)
"""What they may do in kube-public."""

CLEANER_RIGHTS = (RbacRule("clusters that left are deleted", CLUSTER_GROUP, ("managedclusters",), ("list", "delete")),)
"""All that the clean-up of left-over clusters needs."""

BINDABLE = (
    AGENT_ROLE,
    AGENT_OWN_ROLE,
    HUB_ROLE,
    CLEANER_ROLE,
    ACCOUNTS_ROLE,
    EXECUTION_ROLE,
    *(name for server in CATALOG.servers for name in server.roles),
)

DEFINITIONS: tuple[Object, ...] = (*MANAGED_CRDS, CLUSTER_MANAGER)
"""The kinds that the operator installs."""


OPERATOR_RIGHTS = (
    RbacRule("these define what is deployed", OPERATOR_GROUP, ("klusterlets", "clustermanagers"), (*READ, "patch")),
    RbacRule("reports what there is", OPERATOR_GROUP, ("klusterlets/status", "clustermanagers/status"), ("patch",)),
    *_install(
        "installs its kinds",
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        tuple(sorted(definition["metadata"]["name"] for definition in DEFINITIONS)),
    ),
    RbacRule("knows which namespaces it made, where it may make any", "", ("namespaces",), READ),
    RbacRule("sees what it deployed", "apps", ("deployments",), READ),
    RbacRule("sees what it deployed", "batch", ("cronjobs",), READ),
    RbacRule("sees what it deployed", "", ("serviceaccounts",), READ),
    RbacRule("sees what it deployed", "", ("services",), READ),
    RbacRule("sees what it deployed", RBAC_GROUP, ("rolebindings",), READ),
    RbacRule("lets agent and hub do their work", RBAC_GROUP, ("clusterrolebindings",), (*READ, *APPLY)),
    RbacRule("binds these roles and no others", RBAC_GROUP, ("clusterroles",), ("bind",), BINDABLE),
    RbacRule(
        "sees whether the agent has a credential, and nothing of other Secrets",
        "",
        ("secrets",),
        READ,
        (HUB_KUBECONFIG_SECRET, BOOTSTRAP_KUBECONFIG_SECRET),
    ),
    RbacRule(
        "takes back what was deployed for a hub that was left",
        WORK_GROUP,
        ("appliedmanifestworks",),
        (*READ, "patch", "delete"),
    ),
)
"""What the operator may do everywhere; namespaces are the administrator's to make."""


OPERATOR_OWN_RIGHTS = (
    RbacRule("deploys agent and hub", "apps", ("deployments",), APPLY),
    RbacRule("deploys the clean-up of clusters", "batch", ("cronjobs",), APPLY),
    RbacRule("gives agent and hub an identity", "", ("serviceaccounts",), APPLY),
    RbacRule("makes the servers of drivers reachable", "", ("services",), APPLY),
    RbacRule("lets the agent do its work", RBAC_GROUP, ("rolebindings",), APPLY),
    RbacRule(
        "takes away the credential of a cluster that left", "", ("secrets",), ("delete",), (HUB_KUBECONFIG_SECRET,)
    ),
)
"""What the operator may do in the namespaces of agent and hub."""

ELECTION_RIGHTS = (RbacRule("replicas elect one", "coordination.k8s.io", ("leases",), ("get", "create", "update")),)
"""What the operator may do in its own namespace."""
