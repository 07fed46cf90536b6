"""The hooks by which `helm uninstall` removes what controllers made before it removes the controllers."""

from __future__ import annotations

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import OPERATOR_GROUP
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY
from watchword.api.pull_secrets import CONFIGURATION
from watchword.api.resources import RBAC_GROUP
from watchword.api.yaml import dump
from watchword.operator.pull_secret_manifests import PULL_SECRETS
from watchword.operator.rendering import JOB_DEADLINE, role_with_binding

NAME = "watchword-removal"
IMAGE = "IMAGE_OF_THE_CHART"
ARGUMENTS = "ARGUMENTS_OF_THE_CHART"
VALUES = {
    "imagePullSecrets": ".Values.imagePullSecrets",
    "nodeSelector": ".Values.nodePlacement.nodeSelector",
    "tolerations": ".Values.nodePlacement.tolerations",
}
"""Fields of the pods that are values of the chart."""


def removal_hook() -> str:
    """Return the Job that deletes ClusterManager and Klusterlet, with its rights; Helm removes them afterwards."""
    job = _job(ObjectKey(NAME, NAME), NAME, ARGUMENTS)
    return _filled(_account(), _role(), _binding(), job)


def pull_secret_removal_hook() -> str:
    """Return the Job that lets the controllers remove their pull secrets, with the one right that they lack."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIGURATION.name], "verbs": ["patch"]}
    key = ObjectKey(PULL_SECRETS.namespace, f"{PULL_SECRETS.name}-removal")
    rights = [obj for _, obj in role_with_binding(key, [rule], PULL_SECRETS)]
    for obj in rights:
        obj["metadata"]["annotations"] = _hook(0)
    return _filled(*rights, _job(key, PULL_SECRETS.name, ["undeploy", "--pull-secrets"]))


def _filled(*objects: Object) -> str:
    """Return the objects as templates."""
    text = "".join(f"---\n{dump(obj)}" for obj in objects)
    for field, value in VALUES.items():
        text = text.replace(f"{field}: {value}", f"{field}: {{{{ toJson {value} }}}}")
    return (
        text.replace(f"image: {IMAGE}", 'image: {{ include "watchword.image" . | quote }}')
        .replace(f"namespace: {NAME}", "namespace: {{ .Release.Namespace | quote }}")
        .replace(f"args: {ARGUMENTS}", 'args: {{ include "watchword.removalArguments" . }}')
    )


def _hook(weight: int) -> Object:
    return {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }


def _account() -> Object:
    metadata = {"name": NAME, "namespace": NAME, "annotations": _hook(0)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _role() -> Object:
    rule = {
        "apiGroups": [OPERATOR_GROUP],
        "resources": ["clustermanagers", "klusterlets"],
        "verbs": ["get", "list", "watch", "delete"],
    }
    metadata = {"name": NAME, "annotations": _hook(0)}
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}


def _binding() -> Object:
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME, "annotations": _hook(0)},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
    }


def _job(key: ObjectKey, account: str, arguments: str | list[str]) -> Object:
    container = {"name": "removal", "image": IMAGE, "args": arguments, "securityContext": dict(CONTAINER_SECURITY)}
    pod = {
        "serviceAccountName": account,
        "restartPolicy": "Never",
        "automountServiceAccountToken": True,
        **VALUES,
        "containers": [container],
        "securityContext": dict(POD_SECURITY),
    }
    metadata = {"name": key.name, "namespace": key.namespace, "annotations": _hook(1)}
    spec = {"backoffLimit": 2, "activeDeadlineSeconds": JOB_DEADLINE, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
