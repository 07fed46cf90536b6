"""The add-on as its author describes it: what the agent may do on either side, and what runs on a cluster."""

from watchword.addons.definition import AddonDefinition, AddonInstance, Grant
from watchword.addons.lease import agent_deployment, agent_role, lease_manifests
from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.addon import SERVED_IN_PROCESS
from watchword.api.admission_policy import PolicyName, bound_policy
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import IMAGE, Annotation, Label
from watchword.kube.client import Client
from watchword.runtime.manifests import apply_manifests

AGENT_COMMAND = "managed-serviceaccount"
DEPLOYMENT = f"{ADDON_NAME}-addon-agent"

SECRETS_ROLE = f"open-cluster-management:{ADDON_NAME}:own-secrets"
"""The Role in a cluster's namespace that names the Secrets which its accounts own; kept by the hub."""

CREATION = "secret-creation"
_GROUPS = [kind.group for kind in ACCOUNT_KINDS]
_ACCOUNTS = resources.MANAGED_SERVICE_ACCOUNTS.plural

GRANTS = (
    Grant(
        "accounts",
        rules=(
            {"apiGroups": _GROUPS, "resources": [_ACCOUNTS], "verbs": ["get", "list", "watch"]},
            {"apiGroups": _GROUPS, "resources": [f"{_ACCOUNTS}/status"], "verbs": ["get", "patch", "update"]},
        ),
    ),
    # RBAC cannot narrow creation to a name; an admission policy does.
    Grant(CREATION, rules=({"apiGroups": [""], "resources": [resources.SECRETS.plural], "verbs": ["create"]},)),
    Grant("own-secrets", role=SECRETS_ROLE, role_kind="Role"),
)
"""What the agent may do on the hub, in the namespace of its cluster: nothing else."""


def accounts_addon(*, image: str = IMAGE) -> AddonDefinition:
    return AddonDefinition(
        ADDON_NAME,
        grants=GRANTS,
        manifests=lambda instance: agent_manifests(instance, image),
        trusted=frozenset({CREATION}),
    )


def agent_manifests(instance: AddonInstance, image: str) -> list[Object]:
    """Return what runs on a cluster: the agent, its lease, and its rights to keep ServiceAccounts in its namespace."""
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    rules: list[Object] = [
        {"apiGroups": [""], "resources": [resources.SERVICE_ACCOUNTS.plural], "verbs": verbs},
        {"apiGroups": [""], "resources": [f"{resources.SERVICE_ACCOUNTS.plural}/token"], "verbs": ["create"]},
    ]
    args = (AGENT_COMMAND, f"--namespace={instance.addon.namespace_on_cluster()}")
    return [
        *lease_manifests(instance),
        *agent_role(instance, f"{ADDON_NAME}-accounts", rules),
        agent_deployment(instance, DEPLOYMENT, {"addon-agent": ADDON_NAME}, image, *args),
    ]


# The agents' right to create Secrets is limited to those of their accounts, which RBAC cannot say.

_USERS = (
    f"'system:serviceaccount:' + request.namespace + ':{ADDON_NAME}-agent'",
    f"'system:serviceaccount:' + request.namespace + ':' + request.namespace + '-{ADDON_NAME}-agent'",
)
_IS_AGENT = (
    f"request.userInfo.groups.exists(group, group.startsWith('system:open-cluster-management:cluster:')"
    f" && group.endsWith(':addon:{ADDON_NAME}')) || request.userInfo.username in [{', '.join(_USERS)}]"
)
_VERSIONS = ", ".join(f"'{kind.api_version}'" for kind in ACCOUNT_KINDS)
_OWNERS = "object.metadata.ownerReferences"
_OWNED = (
    f"has({_OWNERS}) && {_OWNERS}.size() > 0"
    f" && {_OWNERS}.all(owner, owner.kind == '{resources.MANAGED_SERVICE_ACCOUNTS.kind}'"
    f" && owner.name == object.metadata.name && owner.apiVersion in [{_VERSIONS}])"
)
_SECRET_RULES = {
    "object.type == 'Opaque'": "the agent writes Secrets of type Opaque only",
    f"has(object.metadata.labels) && '{Label.MANAGED_ACCOUNT}' in object.metadata.labels": (
        f"the agent writes Secrets with the label {Label.MANAGED_ACCOUNT} only"
    ),
    _OWNED: "the agent writes Secrets only that a ManagedServiceAccount of the same name owns",
    "!has(object.data) || object.data.all(name, name in ['ca.crt', 'token'])": (
        "the agent writes ca.crt and token only"
    ),
}

FIELD_MANAGER = "watchword-accounts"


async def install(client: Client, *, served: str = SERVED_IN_PROCESS) -> None:
    """Apply every object that differs from what is wanted."""
    await apply_manifests(client, manifests(served=served), manager=FIELD_MANAGER)


def manifests(*, served: str = SERVED_IN_PROCESS) -> list[Manifest]:
    about = {
        "displayName": "Managed service accounts",
        "description": "Keeps service accounts on clusters and reports their tokens to the hub.",
    }
    addon = resources.CLUSTER_MANAGEMENT_ADDONS.manifest(
        ObjectKey.cluster(ADDON_NAME),
        metadata={"annotations": {Annotation.ADDON_MANAGER: served}},
        spec={"addOnMeta": about},
    )
    definitions = [(resources.CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in ACCOUNT_CRDS]
    policy = bound_policy(PolicyName.ACCOUNT_SECRETS, ("", resources.SECRETS.plural), _SECRET_RULES, only_for=_IS_AGENT)
    return [*definitions, *policy, (resources.CLUSTER_MANAGEMENT_ADDONS, addon)]
