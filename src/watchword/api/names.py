"""Every name on the wire: labels, annotations, finalizers, groups, conditions, reasons."""

from typing import Final

from watchword import __version__

REGISTRY = "registry.invalid"  # reserved, so that no registry has it: an image is published by its user
REPOSITORY = "watchword"
IMAGE_NAME = f"{REGISTRY}/{REPOSITORY}"
IMAGE = f"{IMAGE_NAME}:{__version__}"
IMAGE_VARIABLE = "WATCHWORD_IMAGE"
"""The environment variable that names another image for every command."""


# Namespaces
HUB_NAMESPACE = "open-cluster-management-hub"
AGENT_NAMESPACE = "open-cluster-management-agent"
ADDON_NAMESPACE = "open-cluster-management-agent-addon"
BOOTSTRAP_NAMESPACE = "open-cluster-management"
PULL_SECRETS_NAMESPACE = "watchword-pull-secrets"
REGISTRY_AUTH_NAMESPACE = "watchword-registry-auth"  # its own: deleting that of the controllers keeps the signing key

# Namespaces of the hub itself, where no cluster and no add-on of a cluster gets rights
HUB_NAMESPACES = frozenset(
    {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        HUB_NAMESPACE,
        AGENT_NAMESPACE,
        ADDON_NAMESPACE,
        BOOTSTRAP_NAMESPACE,
        PULL_SECRETS_NAMESPACE,
        REGISTRY_AUTH_NAMESPACE,
    }
)

# Names that would make a cluster's group or role one that every cluster shares; see below
SHARED_GROUP_AND_ROLE_NAMES = frozenset({"managed-clusters", "registration", "work"})

RESERVED_CLUSTER_NAMES = HUB_NAMESPACES | SHARED_GROUP_AND_ROLE_NAMES

# Secrets and leases
AGENT_VERSION_CLAIM = "agentversion.watchword.dev"  # the claim in which an agent reports its release
HUB_KUBECONFIG_SECRET = "hub-kubeconfig-secret"  # noqa: S105 - the name of a Secret, not its content
BOOTSTRAP_KUBECONFIG_SECRET = "bootstrap-hub-kubeconfig"  # noqa: S105 - the name of a Secret, not its content
CLUSTER_LEASE = "managed-cluster-lease"
BOOTSTRAP_SERVICE_ACCOUNT = "agent-registration-bootstrap"
HUB_SERVICE_ACCOUNT = "registration-controller-sa"  # of the hub's controllers
GRPC_SERVER_SERVICE_ACCOUNT = "grpc-server-sa"

# Signers
KUBE_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
GRPC_SIGNER = "open-cluster-management.io/grpc"

# API groups; the last one exists only in RBAC
CLUSTER_GROUP = "cluster.open-cluster-management.io"
ADDON_GROUP = "addon.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"
OPERATOR_GROUP = "operator.open-cluster-management.io"
REGISTER_GROUP = "register.open-cluster-management.io"

# The right to `execute-as` this name on manifestworks is that to create works without an executor, where it is demanded
UNNAMED_EXECUTOR = "system:serviceaccount::klusterlet-work-sa"

# Namespaces in which a work without an executor changes nothing: pods there could act as a controller of the cluster,
# the agent, the operator or the hub
PROTECTED_NAMESPACES = frozenset({"kube-system", HUB_NAMESPACE, AGENT_NAMESPACE, BOOTSTRAP_NAMESPACE})

# Reasons of conditions that several processes read
DENIED_REASON = "HubClusterAdminDenied"
NAME_CONFLICT = "NameConflict"


class Label:
    """Label keys. Plain strings: they are keys of objects, where the encoder accepts no enum."""

    CLUSTER_NAME: Final = "open-cluster-management.io/cluster-name"
    ADDON_NAME: Final = "open-cluster-management.io/addon-name"
    ADDON_CLUSTER: Final = "addon.open-cluster-management.io/cluster-name"  # of RBAC objects for an add-on's agent
    CLUSTER_SET: Final = "cluster.open-cluster-management.io/clusterset"
    PLACEMENT: Final = "cluster.open-cluster-management.io/placement"  # on decisions: the placement
    TOKEN_ADDON: Final = "addon.open-cluster-management.io/name"  # noqa: S105 - a label key
    TOKEN_INFRASTRUCTURE: Final = "addon.open-cluster-management.io/token-infrastructure"  # noqa: S105 - a label key
    SPOKE_ONLY: Final = "open-cluster-management.io/spoke-only"
    MANAGED_BY: Final = "app.kubernetes.io/managed-by"
    MANAGED_ACCOUNT: Final = "authentication.open-cluster-management.io/is-managed-serviceaccount"
    ADDON_GRANTABLE: Final = "addon.watchword.dev/grantable"  # on a ClusterRole that templates may give to add-ons
    KEY_PURPOSE: Final = "watchword.dev/key-purpose"  # on a Secret with a signing key: what it may sign
    ACCOUNT_GRANT: Final = "accounts.watchword.dev/grant"  # on a ManifestWork that grants an account a right
    ACCOUNT_NAMESPACE: Final = "accounts.watchword.dev/namespace"  # on replicas and copies: where the account is


ADDON_FEATURE_LABEL_PREFIX = "feature.open-cluster-management.io/addon-"


class Annotation:
    """Annotation keys."""

    AUTO_ACCEPTED_ON: Final = "open-cluster-management.io/automatically-accepted-on"
    CSR_USER: Final = "open-cluster-management.io/csr-user"  # who asked the gRPC server for a certificate
    CSR_GROUPS: Final = "watchword.dev/csr-groups"  # ours: the groups of that user, as a JSON list
    CLEANUP_PRIORITY: Final = "open-cluster-management.io/cleanup-priority"
    SKIP_CLOCK_CHECK: Final = "registration.open-cluster-management.io/skip-clock-sync-check"
    SET_AUTO_UPDATE: Final = "cluster.open-cluster-management.io/autoupdate"
    ADDON_PRE_DELETE: Final = "addon.open-cluster-management.io/addon-pre-delete"  # on manifests that are hooks
    ADDON_TRUSTED_GRANTS: Final = "addon.watchword.dev/trusted-grants"  # rights an administrator allows by name
    ADDON_INSTALLED_BY: Final = "addon.watchword.dev/installed-by"  # how an add-on came to be enabled
    ADDON_MANAGER: Final = "addon.watchword.dev/manager"  # on a built-in add-on: which process serves it
    DISABLE_AUTOMATIC_INSTALLATION: Final = "addon.open-cluster-management.io/disable-automatic-installation"
    IMAGE_REGISTRIES: Final = "open-cluster-management.io/image-registries"  # of a cluster, for its add-ons
    INSTALL_NAMESPACE: Final = "addon.open-cluster-management.io/v1alpha1-install-namespace"
    # What server-side apply last wrote, so that changes of the work are told from changes of the cluster.
    APPLIED_DIGEST: Final = "open-cluster-management.io/config-spec-hash"
    # Ours: the cluster's identity, so that two clusters never share a name.
    CLUSTER_UID: Final = "agent.open-cluster-management.io/cluster-uid"
    # Ours: the key that was accepted first under this name. Only users who may accept clusters may write it.
    FIRST_KEY: Final = "watchword.dev/first-key"
    # Ours: when an administrator denied the cluster. Only who may accept clusters may write it.
    DENIED_ON: Final = "watchword.dev/denied-on"
    # Ours: by which driver the cluster was accepted; an acceptance is for that one alone. Written like FIRST_KEY.
    ACCEPTED_DRIVER: Final = "watchword.dev/accepted-driver"
    # Ours: when the cluster's own side took it out, by `unjoin`.
    LEFT_ON: Final = "watchword.dev/left-on"
    # Ours, on a ClusterManager: how long clusters that left are kept.
    LEFT_CLUSTER_RETENTION: Final = "watchword.dev/left-cluster-retention"
    # Ours, on a ClusterManager: how many replicas of its controllers run; one of them works.
    REPLICAS: Final = "watchword.dev/replicas"
    # Ours, on a ClusterManager or Klusterlet: the Secrets with which its pods' image is pulled, separated by commas.
    IMAGE_PULL_SECRETS: Final = "watchword.dev/image-pull-secrets"
    # Ours, on a Klusterlet: protected namespaces that works without an executor may change, separated by commas.
    WORK_NAMESPACES: Final = "watchword.dev/work-namespaces"
    # Ours: an earlier cluster had this name, and its certificates may still be valid. Written like FIRST_KEY.
    NAME_USED_BEFORE: Final = "watchword.dev/name-used-before"
    # Ours, on the Secret of an agent's credential: asks the agent to take the cluster out; LEFT_ON repeats the value.
    LEAVE_REQUEST: Final = "watchword.dev/leave-request"
    # Ours, on the Secret of an agent's credential: why the hub cannot be reached, or does not register the cluster.
    HUB_UNREACHABLE: Final = "watchword.dev/hub-unreachable"
    NOT_REGISTERED: Final = "watchword.dev/not-registered"
    # Ours: a new value requests the holder to renew its credential now, once.
    ROTATION_REQUEST: Final = "watchword.dev/rotation-request"
    # Ours, on the lease of an add-on: the credential for the hub that its agent uses, as audit logs name it.
    CREDENTIAL_IN_USE: Final = "addon.watchword.dev/credential-in-use"
    # Ours: for which ManagedServiceAccount a ManifestWork grants a right, as namespace/name.
    GRANT_OF: Final = "accounts.watchword.dev/grant-of"
    # Ours: which ManagedServiceAccount a ServiceAccount or a replica was made for, by UID.
    ACCOUNT_UID: Final = "accounts.watchword.dev/account-uid"
    # Ours, on what `export` wrote for a tool: for which account, as namespace/name.
    EXPORTED_ACCOUNT: Final = "accounts.watchword.dev/exported-account"
    # Ours, on the Secret of a managed service account: facts about the token, none of them secret.
    TOKEN_EXPIRY: Final = "accounts.watchword.dev/expires"  # noqa: S105 - an annotation key
    TOKEN_ISSUED: Final = "accounts.watchword.dev/issued"  # noqa: S105 - an annotation key
    TOKEN_SERVER: Final = "accounts.watchword.dev/server"  # noqa: S105 - an annotation key
    TOKEN_REQUEST: Final = "accounts.watchword.dev/requested"  # noqa: S105 - an annotation key
    TOKEN_SERVER_SOURCE: Final = "accounts.watchword.dev/server-source"  # noqa: S105 - set when the hub wrote the address
    TOKEN_DIGEST: Final = "accounts.watchword.dev/digest"  # noqa: S105 - an annotation key


HUB_ANNOTATIONS = (
    Annotation.AUTO_ACCEPTED_ON,
    Annotation.FIRST_KEY,
    Annotation.NAME_USED_BEFORE,
    Annotation.DENIED_ON,
    Annotation.ACCEPTED_DRIVER,
)
"""Annotations of the hub on a ManagedCluster; its agent may edit all others there, but not these."""

AGENT_ANNOTATION_PREFIX = "agent.open-cluster-management.io/"


class Finalizer:
    """Finalizers, each removed by exactly one reconciler."""

    CLUSTER_ACCESS: Final = "cluster.open-cluster-management.io/api-resource-cleanup"
    CLUSTER_CONTENT: Final = "cluster.open-cluster-management.io/resource-cleanup"
    MANIFEST_WORK: Final = "cluster.open-cluster-management.io/manifest-work-cleanup"
    APPLIED_WORK: Final = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"
    ADDON_PRE_DELETE: Final = "addon.open-cluster-management.io/addon-pre-delete"
    ACCOUNT: Final = "accounts.watchword.dev/revocation"
    ACCOUNT_REPLICAS: Final = "accounts.watchword.dev/replicas"
    KLUSTERLET: Final = "operator.open-cluster-management.io/klusterlet-cleanup"
    CLUSTER_MANAGER: Final = "operator.open-cluster-management.io/cluster-manager-cleanup"


HUB_FINALIZERS = (Finalizer.CLUSTER_ACCESS, Finalizer.CLUSTER_CONTENT)
"""Finalizers that keep a deleted ManagedCluster until it is cleaned up; its agent may not remove them."""


class ConditionType:
    """Condition types that other programs read."""

    HUB_ACCEPTED: Final = "HubAcceptedManagedCluster"
    JOINED: Final = "ManagedClusterJoined"
    AVAILABLE: Final = "ManagedClusterConditionAvailable"
    CLOCK_SYNCED: Final = "ManagedClusterConditionClockSynced"
    CERTIFICATE_ROTATED: Final = "ClusterCertificateRotated"
    DELETING: Final = "Deleting"
    CLEANUP_SCHEDULED: Final = "CleanupScheduled"
    SET_EMPTY: Final = "ClusterSetEmpty"
    SET_BOUND: Final = "Bound"
    ADDON_AVAILABLE: Final = "Available"
    TOKEN_INFRASTRUCTURE_READY: Final = "TokenInfrastructureReady"  # noqa: S105 - a condition type
    ADDON_TOKEN_REFRESHED: Final = "AddonTokenRefreshed"  # noqa: S105 - a condition type
    TOKEN_REFRESHED: Final = "TokenRefreshed"  # noqa: S105 - Open Cluster Management's spelling of the same
    INSTALL_STRATEGY_FOLLOWED: Final = "InstallStrategyFollowed"
    REGISTRATION_APPLIED: Final = "RegistrationApplied"
    MANIFEST_APPLIED: Final = "ManifestApplied"
    HOOK_COMPLETED: Final = "HookManifestCompleted"
    WORK_APPLIED: Final = "Applied"
    WORK_AVAILABLE: Final = "Available"
    STATUS_FEEDBACK_SYNCED: Final = "StatusFeedbackSynced"
    WORK_COMPLETE: Final = "Complete"
    WORK_PROGRESSING: Final = "Progressing"
    LEFTOVERS_REMOVED: Final = "LeftoversRemoved"
    ALL_ACCOUNTS_PRESENT: Final = "AllServiceAccountPresent"
    SECRET_CREATED: Final = "SecretCreated"  # noqa: S105 - a condition type
    TOKEN_REPORTED: Final = "TokenReported"  # noqa: S105 - a condition type
    ROTATION_SCHEDULED: Final = "RotationScheduled"
    SUPERSEDED: Final = "Superseded"
    REVOCATION_PENDING: Final = "RevocationPending"


LEASE_EXPIRED_REASON = "ManagedClusterLeaseUpdateStopped"
"""While `ManagedClusterConditionAvailable` says this, the hub is its one writer; else the agent is."""


# Groups that clusters and add-ons belong to
MANAGED_CLUSTERS_GROUP = "system:open-cluster-management:managed-clusters"


AGENT_GROUP_PREFIXES = ("system:open-cluster-management:", "open-cluster-management:")
"""Prefixes of the groups of clusters and add-ons, in both spellings: no other identity is in such a group."""


def cluster_group(cluster: str) -> str:
    """Return the group of a cluster's agents, as certificates carry it."""
    return f"system:open-cluster-management:{cluster}"


def cluster_group_plain(cluster: str) -> str:
    """Return the same group for clouds that reserve the `system:` prefix."""
    return f"open-cluster-management:{cluster}"


def cloud_agent_user(cluster: str) -> str:
    """Return the user of an agent that a cloud authenticates; such users may not begin with `system:`."""
    return f"{cluster_group_plain(cluster)}:agent"


def agent_user(cluster: str, agent: str) -> str:
    return f"system:open-cluster-management:{cluster}:{agent}"


def addon_group(cluster: str, addon: str) -> str:
    return f"system:open-cluster-management:cluster:{cluster}:addon:{addon}"


def addon_fleet_group(addon: str) -> str:
    return f"system:open-cluster-management:addon:{addon}"


def addon_user(cluster: str, addon: str, agent: str) -> str:
    return f"{addon_group(cluster, addon)}:agent:{agent}"


SERVICE_ACCOUNT_USER_PREFIX = "system:serviceaccount:"


def service_account_user(namespace: str, name: str) -> str:
    return f"{SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}"


def addon_service_account(cluster: str, addon: str) -> str:
    """Return the name of an add-on's ServiceAccount on the hub, as its design spells it."""
    return f"{cluster}-{addon}-agent"


def addon_service_account_short(addon: str) -> str:
    return f"{addon}-agent"


def cluster_role(cluster: str) -> str:
    return f"open-cluster-management:managedcluster:{cluster}"


COMMON_REGISTRATION_ROLE = "open-cluster-management:managedcluster:registration"
COMMON_WORK_ROLE = "open-cluster-management:managedcluster:work"


def registration_binding(cluster: str) -> str:
    return f"{cluster_role(cluster)}:registration"


def work_binding(cluster: str) -> str:
    return f"{cluster_role(cluster)}:work"


RESTRICTED_KUBECONFIGS = "WATCHWORD_RESTRICTED_KUBECONFIGS"
"""The variable of processes whose kubeconfigs come from tenants: those run no program and name no file elsewhere."""
