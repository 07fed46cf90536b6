"""Renders the manifests that all our deployments share: Deployment, ServiceAccount, roles, bindings, monitors."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import BOOTSTRAP_NAMESPACE, IMAGE, Label
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    POD_MONITORS,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICE_MONITORS,
    SERVICES,
)

MANAGED_BY = "watchword-operator"
OPERATOR = ObjectKey(BOOTSTRAP_NAMESPACE, "watchword-operator")
HEALTH_PORT = 8000
JOB_DEADLINE = 300  # seconds, for Jobs whose work takes less than a minute


class PodSettings(Struct, frozen=True):
    """What an administrator decides about the pods of a workload."""

    replicas: int = 1
    resources: Mapping[str, Any] = field(default_factory=dict)  # empty: the workload's own default
    node_selector: Mapping[str, Any] = field(default_factory=dict)
    tolerations: Sequence[Object] = ()
    pull_secrets: Sequence[Object] = ()  # references to Secrets, as in a pod

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the pod's spec; what is not decided is left out."""
        rows = {
            "nodeSelector": self.node_selector,
            "tolerations": self.tolerations,
            "imagePullSecrets": self.pull_secrets,
        }
        return {name: value for name, value in rows.items() if value}


class Workload(Struct, frozen=True):
    """One process to run in a cluster, with everything it needs around it."""

    key: ObjectKey  # of the Deployment
    image: str
    arguments: Sequence[str]
    service_account: str = ""  # by default that of the Deployment's name
    replicas: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict)  # Secret name → mount path, optional ones included
    config_maps: Mapping[str, str] = field(default_factory=dict)  # likewise
    pod: Mapping[str, Any] = field(default_factory=dict)  # further fields of the pod's spec
    resources: Mapping[str, Any] = field(default_factory=dict)
    ready_path: str = "/readyz"
    annotations: Mapping[str, str] = field(default_factory=dict)  # of the pods: another value means new pods


def image_of_operator(deployed: Object | None) -> str:
    """Return the image of the operator's own Deployment: what it deploys where a resource names none."""
    pod = (((deployed or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    return str(next((row.get("image") for row in pod.get("containers") or () if row.get("image")), IMAGE))


def labels_for(name: str) -> dict[str, str]:
    return {Label.MANAGED_BY: MANAGED_BY, "app": name}


def deployment(workload: Workload) -> Manifest:
    """Return the Deployment of a workload: not root, read-only, no privileges, probes on."""
    labels = labels_for(workload.key.name)
    volumes: list[Object] = [
        {"name": name, "secret": {"secretName": name, "optional": True}} for name in workload.secrets
    ]
    volumes += [{"name": name, "configMap": {"name": name, "optional": True}} for name in workload.config_maps]
    pod: Object = {
        "serviceAccountName": workload.service_account or workload.key.name,
        "automountServiceAccountToken": True,
        "topologySpreadConstraints": [_spread(workload.key.name)],
        "containers": [_container(workload)],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
        "securityContext": dict(POD_SECURITY),
        **workload.pod,
    }
    metadata: Object = {"labels": labels}
    if workload.annotations:
        metadata["annotations"] = dict(workload.annotations)
    spec = {
        "replicas": workload.replicas,
        "selector": {"matchLabels": {"app": workload.key.name}},
        "template": {"metadata": metadata, "spec": pod},
    }
    return DEPLOYMENTS, DEPLOYMENTS.manifest(workload.key, metadata={"labels": labels}, spec=spec)


def _spread(name: str) -> Object:
    """Return that replicas run on different nodes where there are several."""
    selector = {"matchLabels": {"app": name}}
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }


def _container(workload: Workload) -> Object:
    mounted = {**workload.secrets, **workload.config_maps}
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in mounted.items()]
    container: Object = {
        "name": workload.key.name,
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [*workload.arguments, f"--listen=$(POD_IP):{HEALTH_PORT}"],
        "env": [_from_pod("POD_NAME", "metadata.name"), _from_pod("POD_IP", "status.podIP")],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 10},
        # A process that has just started is ready within seconds: at the next probe, not ten seconds later.
        "readinessProbe": {
            "httpGet": {"path": workload.ready_path, "port": "health"},
            "periodSeconds": 2,
            "failureThreshold": 15,
        },
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a volume of the pod's own
    }
    if workload.resources:
        container["resources"] = workload.resources
    return container


def _from_pod(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def service_account(name: str, namespace: str, annotations: Mapping[str, str] | None = None) -> Manifest:
    """Return an account whose token only those pods mount that ask for it."""
    metadata: Object = {"labels": labels_for(name)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    key = ObjectKey(namespace, name)
    return SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key, metadata=metadata, automountServiceAccountToken=False)


def cluster_role_with_binding(name: str, rules: Sequence[Object], subject: ObjectKey) -> tuple[Manifest, Manifest]:
    role = CLUSTER_ROLES.manifest(
        ObjectKey.cluster(name), metadata={"labels": labels_for(subject.name)}, rules=list(rules)
    )
    return (CLUSTER_ROLES, role), cluster_binding(name, name, subject)


def cluster_binding(name: str, role: str, subject: ObjectKey) -> Manifest:
    return CLUSTER_ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS.manifest(
        ObjectKey.cluster(name),
        metadata={"labels": labels_for(subject.name)},
        roleRef=_reference("ClusterRole", role),
        subjects=[_subject(subject)],
    )


def role_with_binding(
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


METRICS = "metrics"


class WorkloadAccess(Struct, frozen=True):
    """What an administrator asks for around each workload; nothing by default."""

    network_policy: bool = False
    pod_monitor: bool = False
    service_monitor: bool = False
    disruption_budget: bool = False

    def rows(self, workload: ObjectKey) -> list[Manifest]:
        return [
            *([network_policy(workload)] if self.network_policy else []),
            *([pod_monitor(workload)] if self.pod_monitor else []),
            *([metrics_service(workload), service_monitor(workload)] if self.service_monitor else []),
            *([disruption_budget(workload)] if self.disruption_budget else []),
        ]


def network_policy(workload: ObjectKey) -> Manifest:
    """Return a policy that admits connections to health and metrics alone; connections to API servers stay open."""
    spec = {
        "podSelector": {"matchLabels": {"app": workload.name}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": HEALTH_PORT, "protocol": "TCP"}]}],
    }
    return NETWORK_POLICIES, NETWORK_POLICIES.manifest(
        workload, metadata={"labels": labels_for(workload.name)}, spec=spec
    )


def disruption_budget(workload: ObjectKey) -> Manifest:
    """Return a budget by which a drain evicts one replica at a time; a single replica is evicted as well."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": workload.name}}}
    return POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS.manifest(
        workload, metadata={"labels": labels_for(workload.name)}, spec=spec
    )


def pod_monitor(workload: ObjectKey) -> Manifest:
    spec = {
        "selector": {"matchLabels": {"app": workload.name}},
        "podMetricsEndpoints": [{"port": "health", "path": "/metrics"}],
    }
    return POD_MONITORS, POD_MONITORS.manifest(workload, metadata={"labels": labels_for(workload.name)}, spec=spec)


def metrics_service(workload: ObjectKey) -> Manifest:
    """Return a headless Service of every replica, ready or not: a ServiceMonitor can only find Services."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"app": workload.name},
        "ports": [{"name": METRICS, "port": HEALTH_PORT, "protocol": "TCP", "targetPort": "health"}],
    }
    key = ObjectKey(workload.namespace, f"{workload.name}-{METRICS}")
    return SERVICES, SERVICES.manifest(key, metadata={"labels": labels_for(workload.name)}, spec=spec)


def service_monitor(workload: ObjectKey) -> Manifest:
    spec = {
        "selector": {"matchLabels": labels_for(workload.name)},
        "endpoints": [{"port": METRICS, "path": "/metrics"}],
    }
    return SERVICE_MONITORS, SERVICE_MONITORS.manifest(
        workload, metadata={"labels": labels_for(workload.name)}, spec=spec
    )
