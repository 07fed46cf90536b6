"""Which other pods may connect to a workload, and how Prometheus scrapes it."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.meta import Manifest, ObjectKey
from watchword.api.resources import NETWORK_POLICIES, POD_MONITORS, SERVICE_MONITORS, SERVICES
from watchword.operator.rendering import HEALTH_PORT, labels_for

METRICS = "metrics"


class WorkloadAccess(Struct, frozen=True):
    """What an administrator asks for around each workload; nothing by default."""

    network_policy: bool = False
    pod_monitor: bool = False
    service_monitor: bool = False

    def rows(self, workload: ObjectKey) -> list[Manifest]:
        """Return the NetworkPolicy and the monitors of a workload, as far as they are asked for."""
        return [
            *([network_policy(workload)] if self.network_policy else []),
            *([pod_monitor(workload)] if self.pod_monitor else []),
            *([metrics_service(workload), service_monitor(workload)] if self.service_monitor else []),
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


def pod_monitor(workload: ObjectKey) -> Manifest:
    """Return the object by which Prometheus' operator finds the metrics of a workload."""
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
    """Return the object by which Prometheus' operator finds the metrics behind the Service of a workload."""
    spec = {
        "selector": {"matchLabels": labels_for(workload.name)},
        "endpoints": [{"port": METRICS, "path": "/metrics"}],
    }
    return SERVICE_MONITORS, SERVICE_MONITORS.manifest(
        workload, metadata={"labels": labels_for(workload.name)}, spec=spec
    )
