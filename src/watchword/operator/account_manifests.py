"""What lets managed service accounts be served: by the hub itself, or by a manager of its own beside another hub."""

from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.names import ADDON_GROUP, CLUSTER_GROUP, HUB_NAMESPACE, IMAGE, WORK_GROUP
from watchword.api.rbac import RbacRule, rules_of
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, NAMESPACES, RBAC_GROUP
from watchword.operator import rendering
from watchword.operator.cluster_manager_manifests import CONTROLLER
from watchword.operator.rbac import ACCOUNTS_ROLE, ELECTION_RIGHTS, READ

MANAGER = ObjectKey(HUB_NAMESPACE, f"{ADDON_NAME}-addon-manager")
MANAGER_ROLE = f"open-cluster-management:watchword:{ADDON_NAME}-manager"
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
    RbacRule("the agent is installed by work", WORK_GROUP, ("manifestworks",), (*READ, "create", "patch", "delete")),
    RbacRule(
        "agents get rights in the namespace of their cluster",
        RBAC_GROUP,
        ("roles", "rolebindings"),
        (*READ, "create", "patch", "delete"),
    ),
    RbacRule("grants name roles of administrators", RBAC_GROUP, ("clusterroles",), READ),
    RbacRule("agents request certificates", "certificates.k8s.io", ("certificatesigningrequests",), READ),
    RbacRule("agents may have tokens of service accounts", "", ("serviceaccounts",), READ),
    RbacRule("events are recorded", "events.k8s.io", ("events",), ("create", "patch")),
    RbacRule(
        "the kinds are installed",
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get", "create", "patch"),
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
    return list(rendering.cluster_role_with_binding(ACCOUNTS_ROLE, rules_of(ACCOUNTS_RIGHTS), CONTROLLER))


def manager_bundle(*, image: str = IMAGE) -> list[Manifest]:
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(HUB_NAMESPACE))),
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
