"""Schemas of the clusters a hub manages and the sets they form."""

from watchword.api import resources
from watchword.api.crds import schema
from watchword.api.limits import DEFAULT_LEASE_SECONDS, LONGEST_LEASE
from watchword.api.meta import Object

_CLIENT_CONFIG = schema.record(
    "One way to reach the cluster.",
    {
        "url": schema.string("The address of its API server."),
        "caBundle": schema.base64_bytes("The certificate authorities to trust for it."),
    },
    required=("url",),
)

_TAINT = schema.record(
    "A mark that keeps workloads away.",
    {
        "key": schema.string("The taint's key.", maxLength=316, pattern=schema.QUALIFIED_NAME),
        "value": schema.string("The taint's value.", maxLength=1024),
        "effect": schema.string_enum("What it does to selection.", "NoSelect", "PreferNoSelect", "NoSelectIfNew"),
        "timeAdded": schema.date_time("When the taint was put on.", nullable=True),
    },
    required=("effect", "key"),
)

_CLUSTER_SPEC: dict[str, Object] = {
    "hubAcceptsClient": schema.boolean(
        "Whether the hub grants this cluster access; setting it needs managedclusters/accept."
    ),
    "leaseDurationSeconds": schema.whole(
        "How often the agent renews its lease.",
        default=DEFAULT_LEASE_SECONDS,
        maximum=int(LONGEST_LEASE.total_seconds()),
    ),
    "managedClusterClientConfigs": schema.array("How the hub can reach the cluster.", _CLIENT_CONFIG),
    "taints": schema.array("Marks that keep workloads away.", _TAINT),
}

_CLAIM = schema.record(
    "A fact the cluster states about itself.",
    {
        "name": schema.string("The claim's name.", minLength=1, maxLength=253),
        "value": schema.string("The claim's value.", minLength=1, maxLength=1024),
    },
)

_MANAGED_NAMESPACE = schema.record(
    "A namespace that a set of clusters shares.",
    {
        "clusterSet": schema.string("The set it comes from."),
        "name": schema.string("The namespace.", maxLength=63, pattern=schema.DNS_LABEL),
        "conditions": schema.conditions(),
    },
    required=("clusterSet", "name"),
)

_CLUSTER_STATUS: dict[str, Object] = {
    "conditions": schema.conditions(),
    "capacity": schema.quantity_map("What all nodes have together."),
    "allocatable": schema.quantity_map("What workloads may use of it."),
    "version": schema.record("What the cluster runs.", {"kubernetes": schema.string("The version of its API server.")}),
    "clusterClaims": schema.array("Facts the cluster states about itself.", _CLAIM),
    "managedNamespaces": schema.array("Namespaces shared in a set.", _MANAGED_NAMESPACE, keys=("clusterSet", "name")),
}

MANAGED_CLUSTER = schema.definition(
    resources.MANAGED_CLUSTERS,
    schema.version(
        "v1",
        "A cluster that has asked to join this hub.",
        {
            "spec": schema.record("What the hub's administrator wants.", _CLUSTER_SPEC),
            "status": schema.record("What the agent and the hub report.", _CLUSTER_STATUS),
        },
        columns=(
            schema.column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
            schema.column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
            schema.condition_column("Joined", "ManagedClusterJoined"),
            schema.condition_column("Available", "ManagedClusterConditionAvailable"),
            schema.AGE,
        ),
    ),
    short_names=("mcl", "mcls"),
)

_BY_LABEL = {"selectorType": "ExclusiveClusterSetLabel"}

_SET_SELECTOR = schema.record(
    "Which clusters belong to the set.",
    {
        "selectorType": schema.string_enum(
            "By the set label, or by any labels.",
            "ExclusiveClusterSetLabel",
            "LabelSelector",
            default="ExclusiveClusterSetLabel",
        ),
        "labelSelector": schema.label_selector("The labels looked at when the type is LabelSelector."),
    },
    required=("selectorType",),
    default=_BY_LABEL,
)

_SHARED_NAMESPACE = schema.record(
    "One namespace.", {"name": schema.string("Its name.", maxLength=63, pattern=schema.DNS_LABEL)}, required=("name",)
)

MANAGED_CLUSTER_SET = schema.definition(
    resources.MANAGED_CLUSTER_SETS,
    schema.version(
        "v1beta2",
        "A set of clusters that are managed alike.",
        {
            "spec": schema.record(
                "What the set consists of.",
                {
                    "clusterSelector": _SET_SELECTOR,
                    "managedNamespaces": schema.array(
                        "Namespaces shared in the set.", _SHARED_NAMESPACE, keys=("name",)
                    ),
                },
                default={"clusterSelector": _BY_LABEL},
            ),
            "status": schema.record("What the hub reports.", {"conditions": schema.conditions()}),
        },
        columns=(schema.condition_column("Empty", "ClusterSetEmpty"), schema.AGE),
    ),
    short_names=("mclset", "mclsets"),
)

MANAGED_CLUSTER_SET_BINDING = schema.definition(
    resources.MANAGED_CLUSTER_SET_BINDINGS,
    schema.version(
        "v1beta2",
        "The right to use a set of clusters from one namespace.",
        {
            "spec": schema.record(
                "What is bound.", {"clusterSet": schema.string("The set; the binding has its name.", minLength=1)}
            ),
            "status": schema.record("What the hub reports.", {"conditions": schema.conditions()}),
        },
        columns=(schema.condition_column("Bound", "Bound"), schema.AGE),
    ),
    short_names=("mclsetbinding", "mclsetbindings"),
)

CLUSTER_CLAIM = schema.definition(
    resources.CLUSTER_CLAIMS,
    schema.version(
        "v1alpha1",
        "A fact the cluster states about itself.",
        {"spec": schema.record("The fact.", {"value": schema.string("Its value.", minLength=1, maxLength=1024)})},
        columns=(schema.column("Value", ".spec.value"), schema.AGE),
        status=False,
    ),
)
