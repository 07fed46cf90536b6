"""The hook by which `helm uninstall` removes what the operator deployed before it removes the operator."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.api.resources import RBAC_GROUP
from watchword.api.yaml import dump
from watchword.operator.rbac import OPERATOR_GROUP
from watchword.operator.rendering import CONTAINER_SECURITY, POD_SECURITY

NAME = "watchword-removal"
IMAGE = "IMAGE_OF_THE_CHART"
ARGUMENTS = "ARGUMENTS_OF_THE_CHART"
PULL_SECRETS = "PULL_SECRETS_OF_THE_CHART"


def removal_hook() -> str:
    """Return the Job with its rights; Helm removes them once it has ended well."""
    text = "".join(f"---\n{dump(obj)}" for obj in (_account(), _role(), _binding(), _job()))
    return (
        text.replace(f"image: {IMAGE}", 'image: {{ include "watchword.image" . | quote }}')
        .replace(f"namespace: {NAME}", "namespace: {{ .Release.Namespace | quote }}")
        .replace(f"args: {ARGUMENTS}", 'args: {{ include "watchword.removalArguments" . }}')
        .replace(f"imagePullSecrets: {PULL_SECRETS}", "imagePullSecrets: {{ toJson .Values.imagePullSecrets }}")
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


def _job() -> Object:
    container = {"name": "removal", "image": IMAGE, "args": ARGUMENTS, "securityContext": dict(CONTAINER_SECURITY)}
    pod = {
        "serviceAccountName": NAME,
        "restartPolicy": "Never",
        "imagePullSecrets": PULL_SECRETS,
        "containers": [container],
        "securityContext": dict(POD_SECURITY),
    }
    metadata = {"name": NAME, "namespace": NAME, "annotations": _hook(1)}
    spec = {"backoffLimit": 2, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
