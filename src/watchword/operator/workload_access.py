"""Which other pods may connect to a workload, and how Prometheus scrapes it."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.meta import Manifest, ObjectKey
from watchword.api.resources import NETWORK_POLICIES, POD_MONITORS
from watchword.operator.rendering import HEALTH_PORT, labels_for


class WorkloadAccess(Struct, frozen=True):
    """What an administrator asks for around each workload; nothing by default."""

    network_policy: bool = False
    pod_monitor: bool = False

    def rows(self, workload: ObjectKey) -> list[Manifest]:
        """Return the NetworkPolicy and the PodMonitor of a workload, as far as they are asked for."""
        return [
            *([network_policy(workload)] if self.network_policy else []),
            *([pod_monitor(workload)] if self.pod_monitor else []),
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
