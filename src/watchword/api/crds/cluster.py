"""Schemas of the clusters a hub manages and the sets they form."""

from watchword.api import resources
from watchword.api.crds.schema import (
    AGE,
    DNS_LABEL,
    QUALIFIED_NAME,
    array,
    base64_bytes,
    boolean,
    column,
    condition_column,
    conditions,
    date_time,
    definition,
    label_selector,
    quantity_map,
    record,
    string,
    string_enum,
    version,
    whole,
)
from watchword.api.limits import DEFAULT_LEASE_SECONDS, LONGEST_LEASE
from watchword.api.meta import Object

_CLIENT_CONFIG = record(
    "One way to reach the cluster.",
    {
        "url": string("The address of its API server."),
        "caBundle": base64_bytes("The certificate authorities to trust for it."),
    },
    required=("url",),
)

_TAINT = record(
    "A mark that keeps workloads away.",
    {
        "key": string("The taint's key.", maxLength=316, pattern=QUALIFIED_NAME),
        "value": string("The taint's value.", maxLength=1024),
        "effect": string_enum("What it does to selection.", "NoSelect", "PreferNoSelect", "NoSelectIfNew"),
        "timeAdded": date_time("When the taint was put on.", nullable=True),
    },
    required=("effect", "key"),
)

_CLUSTER_SPEC: dict[str, Object] = {
    "hubAcceptsClient": boolean("Whether the hub grants this cluster access; setting it needs managedclusters/accept."),
    "leaseDurationSeconds": whole(
        "How often the agent renews its lease.",
        default=DEFAULT_LEASE_SECONDS,
        maximum=int(LONGEST_LEASE.total_seconds()),
    ),
    "managedClusterClientConfigs": array("How the hub can reach the cluster.", _CLIENT_CONFIG),
    "taints": array("Marks that keep workloads away.", _TAINT),
}

_CLAIM = record(
    "A fact the cluster states about itself.",
    {
        "name": string("The claim's name.", minLength=1, maxLength=253),
        "value": string("The claim's value.", minLength=1, maxLength=1024),
    },
)

_MANAGED_NAMESPACE = record(
    "A namespace that a set of clusters shares.",
    {
        "clusterSet": string("The set it comes from."),
        "name": string("The namespace.", maxLength=63, pattern=DNS_LABEL),
        "conditions": conditions(),
    },
    required=("clusterSet", "name"),
)

_CLUSTER_STATUS: dict[str, Object] = {
    "conditions": conditions(),
    "capacity": quantity_map("What all nodes have together."),
    "allocatable": quantity_map("What workloads may use of it."),
    "version": record("What the cluster runs.", {"kubernetes": string("The version of its API server.")}),
    "clusterClaims": array("Facts the cluster states about itself.", _CLAIM),
    "managedNamespaces": array("Namespaces shared in a set.", _MANAGED_NAMESPACE, keys=("clusterSet", "name")),
}

MANAGED_CLUSTER = definition(
    resources.MANAGED_CLUSTERS,
    version(
        "v1",
        "A cluster that has asked to join this hub.",
        {
            "spec": record("What the hub's administrator wants.", _CLUSTER_SPEC),
            "status": record("What the agent and the hub report.", _CLUSTER_STATUS),
        },
        columns=(
            column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
            column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
            condition_column("Joined", "ManagedClusterJoined"),
            condition_column("Available", "ManagedClusterConditionAvailable"),
            AGE,
        ),
    ),
    short_names=("mcl", "mcls"),
)

_BY_LABEL = {"selectorType": "ExclusiveClusterSetLabel"}

_SET_SELECTOR = record(
    "Which clusters belong to the set.",
    {
        "selectorType": string_enum(
            "By the set label, or by any labels.",
            "ExclusiveClusterSetLabel",
            "LabelSelector",
            default="ExclusiveClusterSetLabel",
        ),
        "labelSelector": label_selector("The labels looked at when the type is LabelSelector."),
    },
    required=("selectorType",),
    default=_BY_LABEL,
)

_SHARED_NAMESPACE = record(
    "One namespace.", {"name": string("Its name.", maxLength=63, pattern=DNS_LABEL)}, required=("name",)
)

MANAGED_CLUSTER_SET = definition(
    resources.MANAGED_CLUSTER_SETS,
    version(
        "v1beta2",
        "A set of clusters that are managed alike.",
        {
            "spec": record(
                "What the set consists of.",
                {
                    "clusterSelector": _SET_SELECTOR,
                    "managedNamespaces": array("Namespaces shared in the set.", _SHARED_NAMESPACE, keys=("name",)),
                },
                default={"clusterSelector": _BY_LABEL},
            ),
            "status": record("What the hub reports.", {"conditions": conditions()}),
        },
        columns=(condition_column("Empty", "ClusterSetEmpty"), AGE),
    ),
    short_names=("mclset", "mclsets"),
)

MANAGED_CLUSTER_SET_BINDING = definition(
    resources.MANAGED_CLUSTER_SET_BINDINGS,
    version(
        "v1beta2",
        "The right to use a set of clusters from one namespace.",
        {
            "spec": record("What is bound.", {"clusterSet": string("The set; the binding has its name.", minLength=1)}),
            "status": record("What the hub reports.", {"conditions": conditions()}),
        },
        columns=(condition_column("Bound", "Bound"), AGE),
    ),
    short_names=("mclsetbinding", "mclsetbindings"),
)

CLUSTER_CLAIM = definition(
    resources.CLUSTER_CLAIMS,
    version(
        "v1alpha1",
        "A fact the cluster states about itself.",
        {"spec": record("The fact.", {"value": string("Its value.", minLength=1, maxLength=1024)})},
        columns=(column("Value", ".spec.value"), AGE),
        status=False,
    ),
)
