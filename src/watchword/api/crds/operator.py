"""Schemas of Klusterlet and ClusterManager."""

from watchword.api import resources
from watchword.api.crds.schema import AGE, column, condition_column, definition, fields

_PARTS = fields("""
free object x-kubernetes-preserve-unknown-fields=true
resourceRequirement: What the pods may use.
  type enum(Default,BestEffort,ResourceRequirement) default=Default: How it is decided.
  resourceRequirements: Details under ResourceRequirement.
    claims list keys=name: Claims.
      -: One claim.
        name*: Its name.
        request: A part of it.
    limits quantities: The most.
    requests quantities: The least.
nodePlacement: Where the pods run.
  nodeSelector map: Labels a node must have.
    -: A value.
  tolerations list: Taints the pods bear.
    - @free
status: What the operator reports.
  conditions @conditions
  observedGeneration int64: The generation looked at.
  generations list: Generations of what was deployed.
    -: One object.
      group*: The API group.
      version*: The API version.
      resource*: The resource, plural.
      namespace: The namespace.
      name*: The name.
      lastGeneration* int64: Its generation.
  relatedResources list: What was deployed.
    -: One object.
      group*: The API group.
      version*: The API version.
      resource*: The resource, plural.
      namespace: The namespace.
      name*: The name.
identities list: Identities accepted without a person.
  -: A value.
gatesOnly: Switches.
  featureGates @featureGates
address: One address.
  host: The host.
  caBundle bytes: Whom to trust for it.
exposure: A way to reach the server.
  type* enum(hostname,loadBalancer,route) default=hostname: How it is reached.
  hostname @address
  loadBalancer @address
  route @address
""")

# A driver is a free string, not an enum: an unknown one becomes a condition that names the known ones.
KLUSTERLET = definition(
    resources.KLUSTERLETS,
    "The agent of this cluster.",
    """
spec: What is wanted.
  clusterName maxLength=63 pattern=DNS_LABEL: The name this cluster joins under.
  namespace maxLength=57 pattern="^open-cluster-management-[-a-z0-9]*[a-z0-9]$": Where the agent runs.
  imagePullSpec: The agent's image.
  registrationImagePullSpec: The image of the registration part, when it runs on its own.
  workImagePullSpec: The image of the work part, when it runs on its own.
  externalServerURLs list: How the hub can reach this cluster.
    -: One way to reach this cluster.
      url*: The address.
      caBundle bytes: The certificate authorities to trust for it.
  nodePlacement @nodePlacement
  priorityClassName: The pods' priority.
  resourceRequirement @resourceRequirement
  hubApiServerHostAlias: A name for the hub that DNS does not know.
    hostname* pattern=HOSTNAME: The name.
    ip* maxLength=45: The address.
  deployOption: How the agent is deployed.
    mode: Default, Singleton or a hosted mode.
  registrationConfiguration: How the cluster registers.
    clientCertExpirationSeconds int32: The life asked for the cluster's certificate; 0 leaves it to the hub.
    featureGates @featureGates
    clusterAnnotations map: Annotations for the ManagedCluster; only those of the agent's prefix.
      -: A value.
    clusterLabels map: Labels for the ManagedCluster.
      -: A value.
    kubeAPIQPS int32 default=50: Understood and not needed: the client has no fixed rate.
    kubeAPIBurst int32 default=100: Understood and not needed: the client has no fixed rate.
    bootstrapKubeConfigs: Several hubs to choose from.
      type* enum(None,LocalSecrets) default=None: Where the kubeconfigs are.
      localSecretsConfig: Bootstrap kubeconfigs in Secrets of the agent's namespace.
        kubeConfigSecrets* list: The Secrets.
          -: One Secret.
            name*: Its name.
        hubConnectionTimeoutSeconds int32 minimum=180 default=600: When to try the next hub.
    registrationDriver: How the cluster obtains its credential.
      authType* maxLength=63 default=csr: csr, aws-irsa or grpc.
      awsIrsa: Details of aws-irsa.
        hubClusterArn* minLength=1 pattern=EKS_ARN: The hub.
        managedClusterArn* minLength=1 pattern=EKS_ARN: This cluster.
    addOnKubeClientRegistrationDriver: How add-ons obtain their credential for the hub's API.
      authType maxLength=63: csr or token; csr when unset.
      token: Details of token.
        expirationSeconds int64 maximum=4294967296: The life asked; 0 means a year.
    clusterClaimConfiguration: Which claims are reported.
      maxCustomClusterClaims* int32 default=20: How many of the user's own.
      reservedClusterClaimSuffixes list maxItems=10: Endings of claims that are always reported.
        - maxLength=64 minLength=1: An ending.
  workConfiguration: How work is applied.
    featureGates @featureGates
    kubeAPIQPS int32 default=50: Understood and not needed: the client has no fixed rate.
    kubeAPIBurst int32 default=100: Understood and not needed: the client has no fixed rate.
    hubKubeAPIQPS int32 default=50: Understood and not needed: the client has no fixed rate.
    hubKubeAPIBurst int32 default=100: Understood and not needed: the client has no fixed rate.
    appliedManifestWorkEvictionGracePeriod pattern=SHORT_DURATION: How long objects outlive a work that vanished.
    statusSyncInterval pattern=SHORT_DURATION: How often feedback is gathered.
status @status
""",
    parts=_PARTS,
    columns=(
        column("Cluster", ".spec.clusterName"),
        condition_column("Applied", "Applied"),
        condition_column("Available", "Available"),
        AGE,
    ),
)

CLUSTER_MANAGER = definition(
    resources.CLUSTER_MANAGERS,
    "The controllers of this hub.",
    """
spec default={"deployOption":{"mode":"Default"}}: What is wanted.
  imagePullSpec: The image of the hub's controllers.
  registrationImagePullSpec: The image of the registration part, when it runs on its own.
  workImagePullSpec: The image of the work part, when it runs on its own.
  placementImagePullSpec: The image of the placement part, when it runs on its own.
  addOnManagerImagePullSpec: The image of the add-on manager, when it runs on its own.
  nodePlacement @nodePlacement
  resourceRequirement @resourceRequirement
  deployOption default={"mode":"Default"}: How the hub is deployed.
    mode* enum(Default,Hosted) default=Default: Here, or on behalf of another cluster.
    default @free
    hosted @free
  registrationConfiguration: How clusters register.
    autoApproveUsers @identities: Users whose first request is approved without a person.
    featureGates @featureGates
    registrationDrivers list keys=authType: The ways in which they may.
      -: One way in which clusters may register.
        authType* maxLength=63 default=csr: csr, aws-irsa or grpc.
        csr: Details of csr.
          autoApprovedIdentities @identities
        awsirsa: Details of aws-irsa.
          hubClusterArn minLength=1 pattern=EKS_ARN: The hub.
          identityMode enum(hub,accept,external): What creates the IAM roles of clusters; hub when unset.
          autoApprovedIdentities @identities
          tags @identities: Tags of the IAM roles of clusters, as KEY=VALUE.
        grpc: Details of grpc.
          autoApprovedIdentities @identities
    importerConfiguration: How clusters are imported.
      renderers @identities: The renderers.
  workConfiguration default={"workDriver":"kube"}: How work is delivered.
    featureGates @featureGates
    workDriver enum(kube,mqtt,grpc) default=kube: Over which channel.
  addOnManagerConfiguration @gatesOnly
  placementConfiguration @gatesOnly
  serverConfiguration: The server agents of the grpc driver connect to.
    imagePullSpec: Its image.
    featureGates @featureGates
    endpointsExposure list: How it is reached.
      -: One way.
        usage: What it is for.
        protocol* enum(grpc,https) default=grpc: Which protocol.
        grpc @exposure: Details of grpc.
        https @exposure: Details of https.
  hostNetwork boolean: Run in the network of the node.
status @status
""",
    parts=_PARTS,
    columns=(condition_column("Applied", "Applied"), condition_column("Progressing", "Progressing"), AGE),
)
