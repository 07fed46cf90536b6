"""Schemas of the clusters a hub manages and the sets they form."""

from watchword.api import resources
from watchword.api.crds.schema import AGE, column, condition_column, definition

MANAGED_CLUSTER = definition(
    resources.MANAGED_CLUSTERS,
    "A cluster that has asked to join this hub.",
    """
spec: What the hub's administrator wants.
  hubAcceptsClient boolean: Whether the hub grants this cluster access; setting it needs managedclusters/accept.
  leaseDurationSeconds int32 maximum=LONGEST_LEASE default=DEFAULT_LEASE_SECONDS: How often the agent renews its lease.
  managedClusterClientConfigs list: How the hub can reach the cluster.
    -: One way to reach the cluster.
      url*: The address of its API server.
      caBundle bytes: The certificate authorities to trust for it.
  taints list: Marks that keep workloads away.
    -: A mark that keeps workloads away.
      key* maxLength=316 pattern=QUALIFIED_NAME: The taint's key.
      value maxLength=1024: The taint's value.
      effect* enum(NoSelect,PreferNoSelect,NoSelectIfNew): What it does to selection.
      timeAdded dateTime nullable=true: When the taint was put on.
status: What the agent and the hub report.
  conditions @conditions
  capacity quantities: What all nodes have together.
  allocatable quantities: What workloads may use of it.
  version: What the cluster runs.
    kubernetes: The version of its API server.
  clusterClaims list: Facts the cluster states about itself.
    -: A fact the cluster states about itself.
      name maxLength=253 minLength=1: The claim's name.
      value maxLength=1024 minLength=1: The claim's value.
  managedNamespaces list keys=clusterSet,name: Namespaces shared in a set.
    -: A namespace that a set of clusters shares.
      clusterSet*: The set it comes from.
      name* maxLength=63 pattern=DNS_LABEL: The namespace.
      conditions @conditions
""",
    columns=(
        column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
        column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
        condition_column("Joined", "ManagedClusterJoined"),
        condition_column("Available", "ManagedClusterConditionAvailable"),
        AGE,
    ),
    short_names=("mcl", "mcls"),
)

MANAGED_CLUSTER_SET = definition(
    resources.MANAGED_CLUSTER_SETS,
    "A set of clusters that are managed alike.",
    """
spec default={"clusterSelector":{"selectorType":"ExclusiveClusterSetLabel"}}: What the set consists of.
  clusterSelector default={"selectorType":"ExclusiveClusterSetLabel"}: Which clusters belong to the set.
    selectorType* enum(ExclusiveClusterSetLabel,LabelSelector) default=ExclusiveClusterSetLabel: By the set label, or by any labels.
    labelSelector x-kubernetes-map-type=atomic: The labels looked at when the type is LabelSelector.
      matchLabels map: Labels that must have exactly these values.
        -: A value.
      matchExpressions list x-kubernetes-list-type=atomic: Requirements that must all hold.
        -: One requirement.
          key*: The label's key.
          operator*: In, NotIn, Exists or DoesNotExist.
          values list x-kubernetes-list-type=atomic: The values compared with.
            -: A value.
  managedNamespaces list keys=name: Namespaces shared in the set.
    -: One namespace.
      name* maxLength=63 pattern=DNS_LABEL: Its name.
status: What the hub reports.
  conditions @conditions
""",  # noqa: E501 - a field is a line
    columns=(condition_column("Empty", "ClusterSetEmpty"), AGE),
    short_names=("mclset", "mclsets"),
)

MANAGED_CLUSTER_SET_BINDING = definition(
    resources.MANAGED_CLUSTER_SET_BINDINGS,
    "The right to use a set of clusters from one namespace.",
    """
spec: What is bound.
  clusterSet minLength=1: The set; the binding has its name.
status: What the hub reports.
  conditions @conditions
""",
    columns=(condition_column("Bound", "Bound"), AGE),
    short_names=("mclsetbinding", "mclsetbindings"),
)

CLUSTER_CLAIM = definition(
    resources.CLUSTER_CLAIMS,
    "A fact the cluster states about itself.",
    """
spec: The fact.
  value maxLength=1024 minLength=1: Its value.
""",
    columns=(column("Value", ".spec.value"), AGE),
    status=False,
)
