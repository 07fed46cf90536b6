"""Schemas of Klusterlet and ClusterManager."""

from watchword.api import resources
from watchword.api.crds.schema import (
    AGE,
    DNS_LABEL,
    EKS_ARN,
    SHORT_DURATION,
    array,
    base64_bytes,
    boolean,
    column,
    condition_column,
    conditions,
    definition,
    feature_gates,
    map_of,
    quantity_map,
    record,
    string,
    string_enum,
    version,
    whole,
)
from watchword.api.meta import Object

_HOSTNAME = (
    r"^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$"
)
_STRING = string("A value.")
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _arn(description: str) -> Object:
    return string(description, minLength=1, pattern=EKS_ARN)


_RESOURCE_REQUIREMENT = record(
    "What the pods may use.",
    {
        "type": string_enum("How it is decided.", "Default", "BestEffort", "ResourceRequirement", default="Default"),
        "resourceRequirements": record(
            "Details under ResourceRequirement.",
            {
                "claims": array(
                    "Claims.",
                    record(
                        "One claim.",
                        {"name": string("Its name."), "request": string("A part of it.")},
                        required=("name",),
                    ),
                    keys=("name",),
                ),
                "limits": quantity_map("The most."),
                "requests": quantity_map("The least."),
            },
        ),
    },
)

_NODE_PLACEMENT = record(
    "Where the pods run.",
    {
        "nodeSelector": map_of("Labels a node must have.", _STRING),
        "tolerations": array("Taints the pods bear.", _FREE),
    },
)

_DEPLOYED = {
    "group": string("The API group."),
    "version": string("The API version."),
    "resource": string("The resource, plural."),
    "namespace": string("The namespace."),
    "name": string("The name."),
}

_STATUS = record(
    "What the operator reports.",
    {
        "conditions": conditions(),
        "observedGeneration": whole("The generation looked at.", bits=64),
        "generations": array(
            "Generations of what was deployed.",
            record(
                "One object.",
                {**_DEPLOYED, "lastGeneration": whole("Its generation.", bits=64)},
                required=("group", "lastGeneration", "name", "resource", "version"),
            ),
        ),
        "relatedResources": array(
            "What was deployed.",
            record("One object.", _DEPLOYED, required=("group", "name", "resource", "version")),
        ),
    },
)

_LOCAL_SECRETS = record(
    "Bootstrap kubeconfigs in Secrets of the agent's namespace.",
    {
        "kubeConfigSecrets": array(
            "The Secrets.", record("One Secret.", {"name": string("Its name.")}, required=("name",))
        ),
        "hubConnectionTimeoutSeconds": whole("When to try the next hub.", default=600, minimum=180),
    },
    required=("kubeConfigSecrets",),
)

_REGISTRATION: dict[str, Object] = {
    "clientCertExpirationSeconds": whole("The life asked for the cluster's certificate; 0 leaves it to the hub."),
    "featureGates": feature_gates(),
    "clusterAnnotations": map_of("Annotations for the ManagedCluster; only those of the agent's prefix.", _STRING),
    "clusterLabels": map_of("Labels for the ManagedCluster.", _STRING),
    "kubeAPIQPS": whole("Understood and not needed: the client has no fixed rate.", default=50),
    "kubeAPIBurst": whole("Understood and not needed: the client has no fixed rate.", default=100),
    "bootstrapKubeConfigs": record(
        "Several hubs to choose from.",
        {
            "type": string_enum("Where the kubeconfigs are.", "None", "LocalSecrets", default="None"),
            "localSecretsConfig": _LOCAL_SECRETS,
        },
        required=("type",),
    ),
    "registrationDriver": record(
        "How the cluster obtains its credential.",
        {
            # A free string, not an enum: an unknown driver becomes a condition that names the known ones.
            "authType": string("csr, aws-irsa or grpc.", default="csr", maxLength=63),
            "awsIrsa": record(
                "Details of aws-irsa.",
                {"hubClusterArn": _arn("The hub."), "managedClusterArn": _arn("This cluster.")},
                required=("hubClusterArn", "managedClusterArn"),
            ),
        },
        required=("authType",),
    ),
    "addOnKubeClientRegistrationDriver": record(
        "How add-ons obtain their credential for the hub's API.",
        {
            "authType": string("csr or token; csr when unset.", maxLength=63),
            "token": record(
                "Details of token.",
                {"expirationSeconds": whole("The life asked; 0 means a year.", bits=64, maximum=2**32)},
            ),
        },
    ),
    "clusterClaimConfiguration": record(
        "Which claims are reported.",
        {
            "maxCustomClusterClaims": whole("How many of the user's own.", default=20),
            "reservedClusterClaimSuffixes": array(
                "Endings of claims that are always reported.",
                string("An ending.", minLength=1, maxLength=64),
                maxItems=10,
            ),
        },
        required=("maxCustomClusterClaims",),
    ),
}

_WORK: dict[str, Object] = {
    "featureGates": feature_gates(),
    "kubeAPIQPS": whole("Understood and not needed: the client has no fixed rate.", default=50),
    "kubeAPIBurst": whole("Understood and not needed: the client has no fixed rate.", default=100),
    "hubKubeAPIQPS": whole("Understood and not needed: the client has no fixed rate.", default=50),
    "hubKubeAPIBurst": whole("Understood and not needed: the client has no fixed rate.", default=100),
    "appliedManifestWorkEvictionGracePeriod": string(
        "How long objects outlive a work that vanished.", pattern=SHORT_DURATION
    ),
    "statusSyncInterval": string("How often feedback is gathered.", pattern=SHORT_DURATION),
}

_EXTERNAL_SERVER = record(
    "One way to reach this cluster.",
    {"url": string("The address."), "caBundle": base64_bytes("The certificate authorities to trust for it.")},
    required=("url",),
)

_KLUSTERLET_SPEC: dict[str, Object] = {
    "clusterName": string("The name this cluster joins under.", maxLength=63, pattern=DNS_LABEL),
    "namespace": string("Where the agent runs.", maxLength=57, pattern="^open-cluster-management-[-a-z0-9]*[a-z0-9]$"),
    "imagePullSpec": string("The agent's image."),
    "registrationImagePullSpec": string("The image of the registration part, when it runs on its own."),
    "workImagePullSpec": string("The image of the work part, when it runs on its own."),
    "externalServerURLs": array("How the hub can reach this cluster.", _EXTERNAL_SERVER),
    "nodePlacement": _NODE_PLACEMENT,
    "priorityClassName": string("The pods' priority."),
    "resourceRequirement": _RESOURCE_REQUIREMENT,
    "hubApiServerHostAlias": record(
        "A name for the hub that DNS does not know.",
        {"hostname": string("The name.", pattern=_HOSTNAME), "ip": string("The address.", maxLength=45)},
        required=("hostname", "ip"),
    ),
    "deployOption": record("How the agent is deployed.", {"mode": string("Default, Singleton or a hosted mode.")}),
    "registrationConfiguration": record("How the cluster registers.", _REGISTRATION),
    "workConfiguration": record("How work is applied.", _WORK),
}

KLUSTERLET = definition(
    resources.KLUSTERLETS,
    version(
        "v1",
        "The agent of this cluster.",
        {"spec": record("What is wanted.", _KLUSTERLET_SPEC), "status": _STATUS},
        columns=(
            column("Cluster", ".spec.clusterName"),
            condition_column("Applied", "Applied"),
            condition_column("Available", "Available"),
            AGE,
        ),
    ),
)

_IDENTITIES = array("Identities accepted without a person.", _STRING)

_HUB_DRIVER = record(
    "One way in which clusters may register.",
    {
        "authType": string("csr, aws-irsa or grpc.", default="csr", maxLength=63),
        "csr": record("Details of csr.", {"autoApprovedIdentities": _IDENTITIES}),
        "awsirsa": record(
            "Details of aws-irsa.",
            {
                "hubClusterArn": _arn("The hub."),
                "identityMode": string_enum(
                    "What creates the IAM roles of clusters; hub when unset.", "hub", "accept", "external"
                ),
                "autoApprovedIdentities": _IDENTITIES,
                "tags": array("Tags of the IAM roles of clusters, as KEY=VALUE.", _STRING),
            },
        ),
        "grpc": record("Details of grpc.", {"autoApprovedIdentities": _IDENTITIES}),
    },
    required=("authType",),
)

_GATES_ONLY = record("Switches.", {"featureGates": feature_gates()})


def _exposure(description: str) -> Object:
    target = record("One address.", {"host": string("The host."), "caBundle": base64_bytes("Whom to trust for it.")})
    fields = {
        "type": string_enum("How it is reached.", "hostname", "loadBalancer", "route", default="hostname"),
        "hostname": target,
        "loadBalancer": target,
        "route": target,
    }
    return record(description, fields, required=("type",))


_SERVER = record(
    "The server agents of the grpc driver connect to.",
    {
        "imagePullSpec": string("Its image."),
        "featureGates": feature_gates(),
        "endpointsExposure": array(
            "How it is reached.",
            record(
                "One way.",
                {
                    "usage": string("What it is for."),
                    "protocol": string_enum("Which protocol.", "grpc", "https", default="grpc"),
                    "grpc": _exposure("Details of grpc."),
                    "https": _exposure("Details of https."),
                },
                required=("protocol",),
            ),
        ),
    },
)

_MANAGER_SPEC: dict[str, Object] = {
    "imagePullSpec": string("The image of the hub's controllers."),
    "registrationImagePullSpec": string("The image of the registration part, when it runs on its own."),
    "workImagePullSpec": string("The image of the work part, when it runs on its own."),
    "placementImagePullSpec": string("The image of the placement part, when it runs on its own."),
    "addOnManagerImagePullSpec": string("The image of the add-on manager, when it runs on its own."),
    "nodePlacement": _NODE_PLACEMENT,
    "resourceRequirement": _RESOURCE_REQUIREMENT,
    "deployOption": record(
        "How the hub is deployed.",
        {
            "mode": string_enum("Here, or on behalf of another cluster.", "Default", "Hosted", default="Default"),
            "default": _FREE,
            "hosted": _FREE,
        },
        required=("mode",),
        default={"mode": "Default"},
    ),
    "registrationConfiguration": record(
        "How clusters register.",
        {
            "autoApproveUsers": array("Users whose first request is approved without a person.", _STRING),
            "featureGates": feature_gates(),
            "registrationDrivers": array("The ways in which they may.", _HUB_DRIVER, keys=("authType",)),
            "importerConfiguration": record(
                "How clusters are imported.", {"renderers": array("The renderers.", _STRING)}
            ),
        },
    ),
    "workConfiguration": record(
        "How work is delivered.",
        {
            "featureGates": feature_gates(),
            "workDriver": string_enum("Over which channel.", "kube", "mqtt", "grpc", default="kube"),
        },
        default={"workDriver": "kube"},
    ),
    "addOnManagerConfiguration": _GATES_ONLY,
    "placementConfiguration": _GATES_ONLY,
    "serverConfiguration": _SERVER,
    "hostNetwork": boolean("Run in the network of the node."),
}

CLUSTER_MANAGER = definition(
    resources.CLUSTER_MANAGERS,
    version(
        "v1",
        "The controllers of this hub.",
        {
            "spec": record("What is wanted.", _MANAGER_SPEC, default={"deployOption": {"mode": "Default"}}),
            "status": _STATUS,
        },
        columns=(condition_column("Applied", "Applied"), condition_column("Progressing", "Progressing"), AGE),
    ),
)
