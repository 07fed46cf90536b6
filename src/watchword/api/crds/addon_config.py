"""The schema of AddOnDeploymentConfig: how the agent of an add-on is deployed on its clusters."""

from watchword.api import resources
from watchword.api.crds.schema import (
    AGE,
    array,
    base64_bytes,
    definition,
    map_of,
    quantity_map,
    record,
    string,
    version,
    whole,
)
from watchword.api.meta import Object
from watchword.api.names import ADDON_NAMESPACE

_VARIABLE = record(
    "One variable.",
    {
        "name": string("Its name.", maxLength=255, pattern="^[a-zA-Z_][_a-zA-Z0-9]*$"),
        "value": string("Its value.", maxLength=1024),
    },
    required=("name", "value"),
)

_TOLERATION = record(
    "One toleration of the pods.",
    {
        "key": string("The key of the taint."),
        "operator": string("Exists or Equal."),
        "value": string("The value of the taint."),
        "effect": string("The effect of the taint."),
        "tolerationSeconds": whole("How long a taint that evicts is tolerated.", bits=64),
    },
)

_REGISTRY = record(
    "One mirror of images.",
    {
        "source": string("The beginning of the images that it replaces; empty: every image."),
        "mirror": string("What stands in its place."),
    },
    required=("mirror",),
)

_CLAIM = record(
    "One claim.",
    {"name": string("Its name in the pod."), "request": string("The request of the claim; all without one.")},
    required=("name",),
)

_RESOURCES = record(
    "Resources of some containers.",
    {
        "containerID": string(
            "Kind, name and container, joined by colons; * stands for any.",
            pattern=r"^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$",
        ),
        "resources": record(
            "What they get.",
            {
                "limits": quantity_map("The most."),
                "requests": quantity_map("The least."),
                "claims": array("Claims of the pod that the containers use.", _CLAIM, keys=("name",)),
            },
        ),
    },
    required=("containerID", "resources"),
)

_FIELDS: dict[str, Object] = {
    "customizedVariables": array("Variables of templates.", _VARIABLE, keys=("name",)),
    "nodePlacement": record(
        "On which nodes the pods run.",
        {
            "nodeSelector": map_of("Labels that the nodes must have.", string("A value.")),
            "tolerations": array("Taints that the pods tolerate.", _TOLERATION),
        },
    ),
    "registries": array("Where images come from.", _REGISTRY),
    "proxyConfig": record(
        "The proxy between the agent and the hub.",
        {
            "httpProxy": string("The URL of the proxy for HTTP."),
            "httpsProxy": string("The URL of the proxy for HTTPS."),
            "noProxy": string("Hosts, domains and networks that need no proxy, joined by commas."),
            "caBundle": base64_bytes("The certificate authorities of the proxy."),
        },
    ),
    "agentInstallNamespace": string(
        "Where the agent is installed; empty: where its template says.",
        default=ADDON_NAMESPACE,
        maxLength=63,
        pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    ),
    "resourceRequirements": array("Resources of containers; the last match counts.", _RESOURCES, keys=("containerID",)),
}


def _version(name: str, *, storage: bool) -> Object:
    fields = {"spec": record("What is wanted.", _FIELDS)}
    return version(name, "How an add-on's agent is deployed.", fields, columns=(AGE,), storage=storage)


ADDON_DEPLOYMENT_CONFIG = definition(
    resources.ADDON_DEPLOYMENT_CONFIGS,
    _version("v1alpha1", storage=True),
    _version("v1beta1", storage=False),
)
