"""Schemas of what the operator deploys: the agent on a cluster, the controllers on a hub."""

from __future__ import annotations

from watchword.api import resources
from watchword.api.crds.parts import (
    AGE,
    DNS_LABEL,
    EKS_ARN,
    SHORT_DURATION,
    base64_bytes,
    choice,
    column,
    condition_column,
    conditions,
    definition,
    feature_gates,
    flag,
    listing,
    mapping,
    quantity_map,
    record,
    text,
    version,
    whole,
)
from watchword.api.meta import Object

_HOSTNAME = (
    r"^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$"
)
_STRING = text("A value.")
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _arn(description: str) -> Object:
    return text(description, minLength=1, pattern=EKS_ARN)


_RESOURCE_REQUIREMENT = record(
    "What the pods may use.",
    {
        "type": choice("How it is decided.", "Default", "BestEffort", "ResourceRequirement", default="Default"),
        "resourceRequirements": record(
            "Details under ResourceRequirement.",
            {
                "claims": listing(
                    "Claims.",
                    record(
                        "One claim.", {"name": text("Its name."), "request": text("A part of it.")}, required=("name",)
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
        "nodeSelector": mapping("Labels a node must have.", _STRING),
        "tolerations": listing("Taints the pods bear.", _FREE),
    },
)

_DEPLOYED = {
    "group": text("The API group."),
    "version": text("The API version."),
    "resource": text("The resource, plural."),
    "namespace": text("The namespace."),
    "name": text("The name."),
}

_STATUS = record(
    "What the operator reports.",
    {
        "conditions": conditions(),
        "observedGeneration": whole("The generation looked at.", bits=64),
        "generations": listing(
            "Generations of what was deployed.",
            record(
                "One object.",
                {**_DEPLOYED, "lastGeneration": whole("Its generation.", bits=64)},
                required=("group", "lastGeneration", "name", "resource", "version"),
            ),
        ),
        "relatedResources": listing(
            "What was deployed.",
            record("One object.", _DEPLOYED, required=("group", "name", "resource", "version")),
        ),
    },
)

_LOCAL_SECRETS = record(
    "Bootstrap kubeconfigs in Secrets of the agent's namespace.",
    {
        "kubeConfigSecrets": listing(
            "The Secrets.", record("One Secret.", {"name": text("Its name.")}, required=("name",))
        ),
        "hubConnectionTimeoutSeconds": whole("When to try the next hub.", default=600, minimum=180),
    },
    required=("kubeConfigSecrets",),
)

_REGISTRATION: dict[str, Object] = {
    "clientCertExpirationSeconds": whole("The life asked for the cluster's certificate; 0 leaves it to the hub."),
    "featureGates": feature_gates(),
    "clusterAnnotations": mapping("Annotations for the ManagedCluster; only those of the agent's prefix.", _STRING),
    "clusterLabels": mapping("Labels for the ManagedCluster.", _STRING),
    "kubeAPIQPS": whole("Understood and not needed: the client has no fixed rate.", default=50),
    "kubeAPIBurst": whole("Understood and not needed: the client has no fixed rate.", default=100),
    "bootstrapKubeConfigs": record(
        "Several hubs to choose from.",
        {
            "type": choice("Where the kubeconfigs are.", "None", "LocalSecrets", default="None"),
            "localSecretsConfig": _LOCAL_SECRETS,
        },
        required=("type",),
    ),
    "registrationDriver": record(
        "How the cluster obtains its credential.",
        {
            # A free string, not an enum: an unknown driver becomes a condition that names the known ones.
            "authType": text("csr, aws-irsa or grpc.", default="csr", maxLength=63),
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
            "authType": text("csr or token; csr when unset.", maxLength=63),
            "token": record(
                "Details of token.",
                {"expirationSeconds": whole("The life asked; 0 means a year.", bits=64, minimum=0)},
            ),
        },
    ),
    "clusterClaimConfiguration": record(
        "Which claims are reported.",
        {
            "maxCustomClusterClaims": whole("How many of the user's own.", default=20),
            "reservedClusterClaimSuffixes": listing(
                "Endings of claims that are always reported.",
                text("An ending.", minLength=1, maxLength=64),
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
    "appliedManifestWorkEvictionGracePeriod": text(
        "How long objects outlive a work that vanished.", pattern=SHORT_DURATION
    ),
    "statusSyncInterval": text("How often feedback is gathered.", pattern=SHORT_DURATION),
}

_EXTERNAL_SERVER = record(
    "One way to reach this cluster.",
    {"url": text("The address."), "caBundle": base64_bytes("The certificate authorities to trust for it.")},
    required=("url",),
)

_KLUSTERLET_SPEC: dict[str, Object] = {
    "clusterName": text("The name this cluster joins under.", maxLength=63, pattern=DNS_LABEL),
    "namespace": text("Where the agent runs.", maxLength=57, pattern="^open-cluster-management-[-a-z0-9]*[a-z0-9]$"),
    "imagePullSpec": text("The agent's image."),
    "registrationImagePullSpec": text("The image of the registration part, when it runs on its own."),
    "workImagePullSpec": text("The image of the work part, when it runs on its own."),
    "externalServerURLs": listing("How the hub can reach this cluster.", _EXTERNAL_SERVER),
    "nodePlacement": _NODE_PLACEMENT,
    "priorityClassName": text("The pods' priority."),
    "resourceRequirement": _RESOURCE_REQUIREMENT,
    "hubApiServerHostAlias": record(
        "A name for the hub that DNS does not know.",
        {"hostname": text("The name.", pattern=_HOSTNAME), "ip": text("The address.", maxLength=45)},
        required=("hostname", "ip"),
    ),
    "deployOption": record("How the agent is deployed.", {"mode": text("Default, Singleton or a hosted mode.")}),
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

_IDENTITIES = listing("Identities accepted without a person.", _STRING)

_HUB_DRIVER = record(
    "One way in which clusters may register.",
    {
        "authType": text("csr, aws-irsa or grpc.", default="csr", maxLength=63),
        "csr": record("Details of csr.", {"autoApprovedIdentities": _IDENTITIES}),
        "awsirsa": record(
            "Details of aws-irsa.",
            {
                "hubClusterArn": _arn("The hub."),
                "autoApprovedIdentities": _IDENTITIES,
                "tags": listing("Tags for what is created.", _STRING),
            },
        ),
        "grpc": record("Details of grpc.", {"autoApprovedIdentities": _IDENTITIES}),
    },
    required=("authType",),
)

_GATES_ONLY = record("Switches.", {"featureGates": feature_gates()})


def _exposure(description: str) -> Object:
    target = record("One address.", {"host": text("The host."), "caBundle": base64_bytes("Whom to trust for it.")})
    fields = {
        "type": choice("How it is reached.", "hostname", "loadBalancer", "route", default="hostname"),
        "hostname": target,
        "loadBalancer": target,
        "route": target,
    }
    return record(description, fields, required=("type",))


_SERVER = record(
    "The server agents of the grpc driver connect to.",
    {
        "imagePullSpec": text("Its image."),
        "featureGates": feature_gates(),
        "endpointsExposure": listing(
            "How it is reached.",
            record(
                "One way.",
                {
                    "usage": text("What it is for."),
                    "protocol": choice("Which protocol.", "grpc", "https", default="grpc"),
                    "grpc": _exposure("Details of grpc."),
                    "https": _exposure("Details of https."),
                },
                required=("protocol",),
            ),
        ),
    },
)

_MANAGER_SPEC: dict[str, Object] = {
    "imagePullSpec": text("The image of the hub's controllers."),
    "registrationImagePullSpec": text("The image of the registration part, when it runs on its own."),
    "workImagePullSpec": text("The image of the work part, when it runs on its own."),
    "placementImagePullSpec": text("The image of the placement part, when it runs on its own."),
    "addOnManagerImagePullSpec": text("The image of the add-on manager, when it runs on its own."),
    "nodePlacement": _NODE_PLACEMENT,
    "resourceRequirement": _RESOURCE_REQUIREMENT,
    "deployOption": record(
        "How the hub is deployed.",
        {
            "mode": choice("Here, or on behalf of another cluster.", "Default", "Hosted", default="Default"),
            "default": _FREE,
            "hosted": _FREE,
        },
        required=("mode",),
        default={"mode": "Default"},
    ),
    "registrationConfiguration": record(
        "How clusters register.",
        {
            "autoApproveUsers": listing("Users whose first request is approved without a person.", _STRING),
            "featureGates": feature_gates(),
            "registrationDrivers": listing("The ways in which they may.", _HUB_DRIVER, keys=("authType",)),
            "importerConfiguration": record(
                "How clusters are imported.", {"renderers": listing("The renderers.", _STRING)}
            ),
        },
    ),
    "workConfiguration": record(
        "How work is delivered.",
        {
            "featureGates": feature_gates(),
            "workDriver": choice("Over which channel.", "kube", "mqtt", "grpc", default="kube"),
        },
        default={"workDriver": "kube"},
    ),
    "addOnManagerConfiguration": _GATES_ONLY,
    "placementConfiguration": _GATES_ONLY,
    "serverConfiguration": _SERVER,
    "hostNetwork": flag("Run in the network of the node."),
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
