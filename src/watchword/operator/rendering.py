"""Renders the manifests that all our deployments share: Deployment, ServiceAccount, roles, bindings, monitors."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from watchword.api import resources
from watchword.api.meta import Manifest, Object, ObjectKey, Resource
from watchword.api.names import BOOTSTRAP_NAMESPACE, IMAGE, Label
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY

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


def labelled(resource: Resource, key: ObjectKey, app: str = "", **fields: Any) -> Manifest:
    """Return an object with the labels of its workload: by default that of its own name."""
    metadata = {"labels": labels_for(app or key.name), **fields.pop("metadata", {})}
    return resource, resource.manifest(key, metadata=metadata, **fields)


def namespace(name: str) -> Manifest:
    return resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(name))


def deployment(workload: Workload) -> Manifest:
    """Return the Deployment of a workload: not root, read-only, no privileges, probes on."""
    volumes: list[Object] = [
        {"name": name, "secret": {"secretName": name, "optional": True}} for name in workload.secrets
    ]
    volumes += [{"name": name, "configMap": {"name": name, "optional": True}} for name in workload.config_maps]
    selector = {"matchLabels": {"app": workload.key.name}}
    spread = {  # replicas run on different nodes where there are several
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    pod: Object = {
        "serviceAccountName": workload.service_account or workload.key.name,
        "automountServiceAccountToken": True,
        "topologySpreadConstraints": [spread],
        "containers": [_container(workload)],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
        "securityContext": dict(POD_SECURITY),
        **workload.pod,
    }
    metadata: Object = {"labels": labels_for(workload.key.name), **_annotations(workload.annotations)}
    template = {"metadata": metadata, "spec": pod}
    spec = {"replicas": workload.replicas, "selector": selector, "template": template}
    return labelled(resources.DEPLOYMENTS, workload.key, spec=spec)


def _annotations(annotations: Mapping[str, str]) -> Object:
    return {"annotations": dict(annotations)} if annotations else {}


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


def service_account(name: str, namespace: str, annotations: Mapping[str, str] = MappingProxyType({})) -> Manifest:
    """Return an account whose token only those pods mount that ask for it."""
    key = ObjectKey(namespace, name)
    return labelled(
        resources.SERVICE_ACCOUNTS, key, metadata=_annotations(annotations), automountServiceAccountToken=False
    )


def cluster_role_with_binding(name: str, rules: Sequence[Object], subject: ObjectKey) -> tuple[Manifest, Manifest]:
    role = labelled(resources.CLUSTER_ROLES, ObjectKey.cluster(name), subject.name, rules=list(rules))
    return role, cluster_binding(name, name, subject)


def cluster_binding(name: str, role: str, subject: ObjectKey) -> Manifest:
    return _binding(resources.CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(name), "ClusterRole", role, subject)


def role_with_binding(key: ObjectKey, rules: Sequence[Object], subject: ObjectKey) -> tuple[Manifest, Manifest]:
    role = labelled(resources.ROLES, key, subject.name, rules=list(rules))
    return role, _binding(resources.ROLE_BINDINGS, key, "Role", key.name, subject)


def binding_in_namespace(key: ObjectKey, cluster_role: str, subject: ObjectKey) -> Manifest:
    return _binding(resources.ROLE_BINDINGS, key, "ClusterRole", cluster_role, subject)


def _binding(resource: Resource, key: ObjectKey, kind: str, role: str, subject: ObjectKey) -> Manifest:
    return labelled(
        resource,
        key,
        subject.name,
        roleRef={"apiGroup": resources.RBAC_GROUP, "kind": kind, "name": role},
        subjects=[{"kind": "ServiceAccount", "namespace": subject.namespace, "name": subject.name}],
    )


METRICS = "metrics"


class WorkloadAccess(Struct, frozen=True):
    """What an administrator asks for around each workload; nothing by default."""

    network_policy: bool = False
    pod_monitor: bool = False
    service_monitor: bool = False
    disruption_budget: bool = False

    def rows(self, workload: ObjectKey) -> list[Manifest]:
        rows: list[Manifest] = []
        selector = {"selector": {"matchLabels": {"app": workload.name}}}
        if self.network_policy:
            rows.append(network_policy(workload))
        if self.pod_monitor:
            endpoints = [{"port": "health", "path": "/metrics"}]
            rows.append(labelled(resources.POD_MONITORS, workload, spec={**selector, "podMetricsEndpoints": endpoints}))
        if self.service_monitor:
            endpoints = [{"port": METRICS, "path": "/metrics"}]
            spec = {"selector": {"matchLabels": labels_for(workload.name)}, "endpoints": endpoints}
            rows += [metrics_service(workload), labelled(resources.SERVICE_MONITORS, workload, spec=spec)]
        if self.disruption_budget:  # a drain evicts one replica at a time, and a single replica as well
            rows.append(labelled(resources.POD_DISRUPTION_BUDGETS, workload, spec={"maxUnavailable": 1, **selector}))
        return rows


def network_policy(workload: ObjectKey) -> Manifest:
    """Return a policy that admits connections to health and metrics alone; connections to API servers stay open."""
    spec = {
        "podSelector": {"matchLabels": {"app": workload.name}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": HEALTH_PORT, "protocol": "TCP"}]}],
    }
    return labelled(resources.NETWORK_POLICIES, workload, spec=spec)


def metrics_service(workload: ObjectKey) -> Manifest:
    """Return a headless Service of every replica, ready or not: a ServiceMonitor can only find Services."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"app": workload.name},
        "ports": [{"name": METRICS, "port": HEALTH_PORT, "protocol": "TCP", "targetPort": "health"}],
    }
    return labelled(
        resources.SERVICES, ObjectKey(workload.namespace, f"{workload.name}-{METRICS}"), workload.name, spec=spec
    )
