"""Schemas of the add-ons that run on managed clusters, and of how their agents are deployed.

Open Cluster Management converts between v1alpha1 and v1beta1 with a webhook. Here both versions share one schema
with the fields of either, so that no webhook is needed and no field is pruned.
"""

from watchword.api import resources
from watchword.api.crds.schema import AGE, column, condition_column, definition, fields
from watchword.api.crds.work import WORK_PARTS

_PARTS = WORK_PARTS | fields("""
config: One configuration.
  group default="": The API group; empty for core.
  resource* minLength=1: The resource, plural.
  namespace: The namespace.
  name* minLength=1: The name.
configHash: A configuration.
  namespace: The namespace.
  name* minLength=1: The name.
  specHash: A hash of its spec.
configReference: A configuration and how far it has been applied.
  group default="": The API group; empty for core.
  resource* minLength=1: The resource, plural.
  namespace: The namespace.
  name: The name.
  desiredConfig @configHash: What is wanted.
  lastAppliedConfig @configHash: What was applied last.
  lastKnownGoodConfig @configHash: What last worked.
  lastObservedGeneration int64: The generation looked at.
addOnMeta: What people see.
  displayName: A name for people.
  description: A sentence for people.
addOnConfiguration: Where v1alpha1 kept its configuration.
  crdName: The configuration's CRD.
  crName: The configuration's name.
  lastObservedGeneration int64: The generation looked at.
supportedConfig: A kind of configuration the add-on understands.
  group default="": The API group; empty for core.
  resource* minLength=1: The resource, plural.
  defaultConfig: The one used when none is named.
    namespace: The namespace.
    name* minLength=1: The name.
maxFailures intOrPercent default=0: How many may fail.
minSuccessTime default="0": How long a success must last.
progressDeadline default=None pattern=DEADLINE: How long to wait for progress.
mandatoryDecisionGroups list: Groups that go first.
  -: One group.
    groupIndex int32: Its index.
    groupName: Its name.
subject: A subject.
  user: The user name.
  groups list: The groups.
    -: A name.
  organizationUnits list: The organisational units.
    -: A name.
  organizationUnit list: The same, as v1alpha1 spells it.
    -: A name.
""")

MANAGED_CLUSTER_ADDON = definition(
    resources.MANAGED_CLUSTER_ADDONS,
    "An add-on enabled on one cluster, in that cluster's namespace.",
    """
spec: What is wanted.
  installNamespace maxLength=63 pattern=DNS_LABEL: Where the agent is installed.
  configs list: Configurations of this instance.
    - @config
status: What the add-on's manager, the hub and the agent report.
  conditions @conditions
  namespace: Where the agent is installed, as its manager decided.
  registrations list: The credentials the add-on needs.
    -: One credential the add-on needs.
      type enum(kubeClient,customSigner): For the hub's API, or for something else.
      kubeClient: A credential for the hub's API server.
        driver enum(csr,token): How it is obtained; declared by the agent.
        subject @subject: Who the add-on will be; declared by the agent, rebuilt and compared by the hub.
      customSigner: A client certificate by a signer of the add-on's own.
        signerName* maxLength=571 minLength=5 pattern=SIGNER_NAME: The signer asked.
        subject @subject: Who the certificate names.
      signerName: The signer, as v1alpha1 spells a registration.
      subject @subject: The subject, as v1alpha1 spells a registration.
  kubeClientDriver enum(csr,token): The driver, as v1alpha1 spells it.
  healthCheck: How health is judged.
    mode enum(Lease,Customized) default=Lease: By lease, or otherwise.
  addOnMeta @addOnMeta
  addOnConfiguration @addOnConfiguration
  configReferences list: Configurations in force.
    - @configReference
  supportedConfigs list keys=group,resource: Configurations understood.
    - @supportedConfig
  relatedObjects list: Objects that belong to the add-on.
    -: An object that belongs to the add-on.
      group*: The API group.
      resource*: The resource, plural.
      namespace: The namespace.
      name*: The name.
""",
    parts=_PARTS,
    columns=(
        condition_column("Available", "Available"),
        condition_column("Degraded", "Degraded"),
        condition_column("Progressing", "Progressing"),
        AGE,
    ),
    short_names=("mca", "mcas"),
    also=("v1alpha1",),
)

CLUSTER_MANAGEMENT_ADDON = definition(
    resources.CLUSTER_MANAGEMENT_ADDONS,
    "An add-on that this hub knows.",
    """
spec: What it is.
  addOnMeta @addOnMeta
  addOnConfiguration @addOnConfiguration
  defaultConfigs list keys=group,resource: Default configurations.
    - @config
  supportedConfigs list keys=group,resource: Configurations understood.
    - @supportedConfig
  installStrategy default={"type":"Manual"}: On which clusters the add-on is enabled.
    type enum(Manual,Placements,ClusterSets) default=Manual: By hand, by placement, or on every cluster of some sets.
    placements list keys=namespace,name: Placements under Placements.
      -: Clusters that get the add-on.
        namespace* minLength=1: The placement's namespace.
        name* minLength=1: The placement's name.
        configs list: Configurations for these clusters.
          - @config
        rolloutStrategy default={"type":"All"}: How a change spreads.
          type enum(All,Progressive,ProgressivePerGroup) default=All: All at once or step by step.
          all: All at once.
            maxFailures @maxFailures
            minSuccessTime @minSuccessTime
            progressDeadline @progressDeadline
          progressive: Cluster by cluster.
            maxFailures @maxFailures
            minSuccessTime @minSuccessTime
            progressDeadline @progressDeadline
            mandatoryDecisionGroups @mandatoryDecisionGroups
            maxConcurrency intOrPercent: How many at once.
          progressivePerGroup: Group by group.
            maxFailures @maxFailures
            minSuccessTime @minSuccessTime
            progressDeadline @progressDeadline
            mandatoryDecisionGroups @mandatoryDecisionGroups
    clusterSets list keys=name: Sets under ClusterSets.
      -: A set of clusters.
        name* minLength=1: Its name.
status: What the hub reports.
  defaultConfigReferences list: Default configurations in force.
    - @configReference
  defaultconfigReferences list: Default configurations in force.
    - @configReference
  installProgressions list: How far the add-on has spread.
    -: How far the add-on has spread.
      namespace* minLength=1: The placement's namespace.
      name* minLength=1: The placement's name.
      configReferences list: Configurations in force.
        - @configReference
      conditions @conditions
  conditions @conditions
""",
    parts=_PARTS,
    columns=(column("Display Name", ".spec.addOnMeta.displayName"), AGE),
    short_names=("cma", "cmas"),
    also=("v1alpha1",),
)

ADDON_TEMPLATE = definition(
    resources.ADDON_TEMPLATES,
    "An add-on described by manifests alone.",
    """
spec: What it consists of.
  addonName*: The add-on's name.
  agentSpec*: The work that installs it.
    workload: What to apply.
      manifests @manifests
    deleteOption @deleteOption
    manifestConfigs list: How single manifests are treated.
      - @manifestConfig
    executor @executor
  registration list: The credentials it needs.
    -: One credential the add-on needs.
      type* enum(KubeClient,CustomSigner): For the hub's API, or for something else.
      kubeClient: A credential for the hub's API server.
        hubPermissions list: The rights it carries.
          -: A right on the hub.
            type* enum(CurrentCluster,SingleNamespace): Where it holds.
            currentCluster: In the cluster's own namespace.
              clusterRoleName*: The ClusterRole granted.
            singleNamespace: In one namespace.
              namespace*: The namespace.
              roleRef*: The role granted.
                apiGroup*: Its API group.
                kind*: Role or ClusterRole.
                name*: Its name.
      customSigner: A client certificate by a signer of the add-on's own.
        signerName* maxLength=571 minLength=5 pattern=SIGNER_NAME: The signer asked.
        subject @subject: Who the certificate names.
        signingCA*: The Secret with the signing certificate and key.
          namespace: Its namespace: the hub's, or one that its administrator lists.
          name*: Its name.
""",
    parts=_PARTS,
    columns=(column("Addon Name", ".spec.addonName"), AGE),
    also=("v1beta1",),
    status=False,
)

ADDON_DEPLOYMENT_CONFIG = definition(
    resources.ADDON_DEPLOYMENT_CONFIGS,
    "How an add-on's agent is deployed.",
    """
spec: What is wanted.
  customizedVariables list keys=name: Variables of templates.
    -: One variable.
      name* maxLength=255 pattern="^[a-zA-Z_][_a-zA-Z0-9]*$": Its name.
      value* maxLength=1024: Its value.
  nodePlacement: On which nodes the pods run.
    nodeSelector map: Labels that the nodes must have.
      -: A value.
    tolerations list: Taints that the pods tolerate.
      -: One toleration of the pods.
        key: The key of the taint.
        operator: Exists or Equal.
        value: The value of the taint.
        effect: The effect of the taint.
        tolerationSeconds int64: How long a taint that evicts is tolerated.
  registries list: Where images come from.
    -: One mirror of images.
      source: The beginning of the images that it replaces; empty: every image.
      mirror*: What stands in its place.
  proxyConfig: The proxy between the agent and the hub.
    httpProxy: The URL of the proxy for HTTP.
    httpsProxy: The URL of the proxy for HTTPS.
    noProxy: Hosts, domains and networks that need no proxy, joined by commas.
    caBundle bytes: The certificate authorities of the proxy.
  agentInstallNamespace maxLength=63 default=ADDON_NAMESPACE pattern=OPTIONAL_DNS_LABEL: Where the agent is installed; empty: where its template says.
  resourceRequirements list keys=containerID: Resources of containers; the last match counts.
    -: Resources of some containers.
      containerID* pattern=CONTAINER_ID: Kind, name and container, joined by colons; * stands for any.
      resources*: What they get.
        limits quantities: The most.
        requests quantities: The least.
        claims list keys=name: Claims of the pod that the containers use.
          -: One claim.
            name*: Its name in the pod.
            request: The request of the claim; all without one.
""",  # noqa: E501 - a field is a line
    also=("v1beta1",),
)
