"""Words with which both deployments are written: container, rights, account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Label
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)

RBAC_GROUP = "rbac.authorization.k8s.io"
MANAGED_BY = "watchword-operator"
IMAGE = "watchword"  # what the process node of the embedded control plane knows as itself

Manifest = tuple[Resource, Object]


@dataclass(frozen=True, slots=True)
class Workload:
    """One process to run in a cluster, with everything it needs around it."""

    name: str
    namespace: str
    account: str
    image: str
    arguments: Sequence[str]
    replicas: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict)  # Secret name → mount path, optional ones included
    pod: Mapping[str, Any] = field(default_factory=dict)  # further fields of the pod's spec
    resources: Mapping[str, Any] = field(default_factory=dict)


def labels_for(name: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a workload."""
    return {Label.MANAGED_BY: MANAGED_BY, "app": name}


def deployment(workload: Workload) -> Manifest:
    """Return the Deployment of a workload: not root, read-only, no privileges, probes on."""
    labels = labels_for(workload.name)
    volumes = [{"name": name, "secret": {"secretName": name, "optional": True}} for name in workload.secrets]
    pod: Object = {
        "serviceAccountName": workload.account,
        "containers": [_container(workload)],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        **workload.pod,
    }
    spec = {
        "replicas": workload.replicas,
        "selector": {"matchLabels": {"app": workload.name}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    key = ObjectKey(workload.namespace, workload.name)
    return DEPLOYMENTS, DEPLOYMENTS.manifest(key, metadata={"labels": labels}, spec=spec)


def _container(workload: Workload) -> Object:
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in workload.secrets.items()]
    container: Object = {
        "name": workload.name,
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(workload.arguments),
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [{"name": "health", "containerPort": 8000}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 10},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a volume of the pod's own
    }
    if workload.resources:
        container["resources"] = dict(workload.resources)
    return container


def account(name: str, namespace: str, annotations: Mapping[str, str] | None = None) -> Manifest:
    """Return a ServiceAccount."""
    metadata: Object = {"labels": labels_for(name)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(ObjectKey(namespace, name), metadata=metadata)


def cluster_rights(name: str, rules: Sequence[Object], subject: ObjectKey) -> tuple[Manifest, Manifest]:
    """Return a ClusterRole and its binding to a ServiceAccount."""
    key = ObjectKey.cluster(name)
    metadata = {"labels": labels_for(subject.name)}
    role = CLUSTER_ROLES.manifest(key, metadata=metadata, rules=list(rules))
    binding = CLUSTER_ROLE_BINDINGS.manifest(
        key, metadata=metadata, roleRef=_reference("ClusterRole", name), subjects=[_subject(subject)]
    )
    return (CLUSTER_ROLES, role), (CLUSTER_ROLE_BINDINGS, binding)


def namespace_rights(
    key: ObjectKey, rules: Sequence[Object], subject: ObjectKey, *, existing_role: str = ""
) -> tuple[Manifest, ...]:
    """Return a Role with its binding to a ServiceAccount, or only the binding to an existing ClusterRole."""
    metadata = {"labels": labels_for(subject.name)}
    reference = _reference("ClusterRole", existing_role) if existing_role else _reference("Role", key.name)
    binding = ROLE_BINDINGS.manifest(key, metadata=metadata, roleRef=reference, subjects=[_subject(subject)])
    if existing_role:
        return ((ROLE_BINDINGS, binding),)
    return (ROLES, ROLES.manifest(key, metadata=metadata, rules=list(rules))), (ROLE_BINDINGS, binding)


def _reference(kind: str, name: str) -> Object:
    return {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}


def _subject(account_key: ObjectKey) -> Object:
    return {"kind": "ServiceAccount", "namespace": account_key.namespace, "name": account_key.name}
