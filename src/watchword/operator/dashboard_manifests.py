"""What an administrator applies to run the dashboard in the hub cluster."""

from msgspec import Struct

from watchword.api import resources
from watchword.api.bootstrap import CLUSTER_INFO, TOKEN_SECRET_NAMESPACE
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.names import ADDON_GROUP, BOOTSTRAP_NAMESPACE, CLUSTER_GROUP, IMAGE
from watchword.api.rbac import RbacRule, rules_of
from watchword.operator import rendering
from watchword.operator.rbac import READ

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
    RbacRule("shows until when the hub's authority lives", "", ("configmaps",), READ, (CLUSTER_INFO.name,)),
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
    """Return the account, its rights, the Deployment and the Service; Secrets are readable only on request."""
    spec = {"selector": {"app": DASHBOARD.name}, "ports": [{"name": "http", "port": PORT, "targetPort": PORT}]}
    return [
        (resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(DASHBOARD.namespace))),
        rendering.service_account(DASHBOARD.name, DASHBOARD.namespace),
        *rendering.cluster_role_with_binding(DASHBOARD_ROLE, rules_of(DASHBOARD_RIGHTS), DASHBOARD),
        *rendering.role_with_binding(
            ObjectKey(CLUSTER_INFO.namespace, AUTHORITY_ROLE), rules_of(AUTHORITY_RIGHTS), DASHBOARD
        ),
        *_secret_roles(options),
        (
            resources.SERVICES,
            resources.SERVICES.manifest(
                DASHBOARD, metadata={"labels": rendering.labels_for(DASHBOARD.name)}, spec=spec
            ),
        ),
        rendering.deployment(_workload(options)),
    ]


def _secret_roles(options: DashboardBundleOptions) -> list[Manifest]:
    tokens, pull_secrets = rules_of(TOKENS_RIGHTS), rules_of(PULL_SECRETS_RIGHTS)
    rows: list[Manifest] = []
    if options.join_tokens:
        rows += rendering.role_with_binding(ObjectKey(TOKEN_SECRET_NAMESPACE, TOKENS_ROLE), tokens, DASHBOARD)
    if options.pull_secrets:
        rows += rendering.cluster_role_with_binding(PULL_SECRETS_ROLE, pull_secrets, DASHBOARD)
    return rows


def _workload(options: DashboardBundleOptions) -> rendering.Workload:
    return rendering.Workload(
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
