"""The hub side of the sample add-on: all that its author writes."""

from watchword.addons.definition import AddonDefinition, AddonInstance
from watchword.addons.lease import lease_manifests
from watchword.addons.rbac import status_writer
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import IMAGE
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY
from watchword.api.resources import DEPLOYMENTS

NAME = "sample-addon"
REPORT = "sample-addon-report"
SECRET = f"{NAME}-hub-kubeconfig"
MOUNT = "/managed/hub-kubeconfig"


def deployment(instance: AddonInstance) -> Object:
    """Return the agent's Deployment on a cluster: one replica that holds the add-on's own credential."""
    namespace = instance.addon.namespace_on_cluster()
    container = {
        "name": "agent",
        "image": IMAGE,
        "args": ["sample-addon", f"--hub-kubeconfig={MOUNT}/kubeconfig", f"--lease-namespace={namespace}"],
        "volumeMounts": [{"name": "hub", "mountPath": MOUNT, "readOnly": True}],
        "securityContext": dict(CONTAINER_SECURITY),
    }
    volume = {"name": "hub", "secret": {"secretName": SECRET}}
    pod = {
        "serviceAccountName": NAME,
        "securityContext": dict(POD_SECURITY),
        "containers": [container],
        "volumes": [volume],
    }
    labels = {"app": NAME}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return DEPLOYMENTS.manifest(ObjectKey(namespace, NAME), spec=spec)


SAMPLE = AddonDefinition(
    NAME, grants=(status_writer(REPORT),), manifests=lambda instance: [*lease_manifests(instance), deployment(instance)]
)
