"""The schema of AddOnDeploymentConfig: how the agent of an add-on is deployed on its clusters."""

from watchword.api import resources
from watchword.api.crds import schema
from watchword.api.meta import Object
from watchword.api.names import ADDON_NAMESPACE

_VARIABLE = schema.record(
    "One variable.",
    {
        "name": schema.string("Its name.", maxLength=255, pattern="^[a-zA-Z_][_a-zA-Z0-9]*$"),
        "value": schema.string("Its value.", maxLength=1024),
    },
    required=("name", "value"),
)

_TOLERATION = schema.record(
    "One toleration of the pods.",
    {
        "key": schema.string("The key of the taint."),
        "operator": schema.string("Exists or Equal."),
        "value": schema.string("The value of the taint."),
        "effect": schema.string("The effect of the taint."),
        "tolerationSeconds": schema.whole("How long a taint that evicts is tolerated.", bits=64),
    },
)

_REGISTRY = schema.record(
    "One mirror of images.",
    {
        "source": schema.string("The beginning of the images that it replaces; empty: every image."),
        "mirror": schema.string("What stands in its place."),
    },
    required=("mirror",),
)

_CLAIM = schema.record(
    "One claim.",
    {
        "name": schema.string("Its name in the pod."),
        "request": schema.string("The request of the claim; all without one."),
    },
    required=("name",),
)

_RESOURCES = schema.record(
    "Resources of some containers.",
    {
        "containerID": schema.string(
            "Kind, name and container, joined by colons; * stands for any.",
            pattern=r"^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$",
        ),
        "resources": schema.record(
            "What they get.",
            {
                "limits": schema.quantity_map("The most."),
                "requests": schema.quantity_map("The least."),
                "claims": schema.array("Claims of the pod that the containers use.", _CLAIM, keys=("name",)),
            },
        ),
    },
    required=("containerID", "resources"),
)

_FIELDS: dict[str, Object] = {
    "customizedVariables": schema.array("Variables of templates.", _VARIABLE, keys=("name",)),
    "nodePlacement": schema.record(
        "On which nodes the pods run.",
        {
            "nodeSelector": schema.map_of("Labels that the nodes must have.", schema.string("A value.")),
            "tolerations": schema.array("Taints that the pods tolerate.", _TOLERATION),
        },
    ),
    "registries": schema.array("Where images come from.", _REGISTRY),
    "proxyConfig": schema.record(
        "The proxy between the agent and the hub.",
        {
            "httpProxy": schema.string("The URL of the proxy for HTTP."),
            "httpsProxy": schema.string("The URL of the proxy for HTTPS."),
            "noProxy": schema.string("Hosts, domains and networks that need no proxy, joined by commas."),
            "caBundle": schema.base64_bytes("The certificate authorities of the proxy."),
        },
    ),
    "agentInstallNamespace": schema.string(
        "Where the agent is installed; empty: where its template says.",
        default=ADDON_NAMESPACE,
        maxLength=63,
        pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    ),
    "resourceRequirements": schema.array(
        "Resources of containers; the last match counts.", _RESOURCES, keys=("containerID",)
    ),
}


def _version(name: str, *, storage: bool) -> Object:
    fields = {"spec": schema.record("What is wanted.", _FIELDS)}
    return schema.version(name, "How an add-on's agent is deployed.", fields, columns=(schema.AGE,), storage=storage)


ADDON_DEPLOYMENT_CONFIG = schema.definition(
    resources.ADDON_DEPLOYMENT_CONFIGS,
    _version("v1alpha1", storage=True),
    _version("v1beta1", storage=False),
)
