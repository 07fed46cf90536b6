"""The feature gates of agents and hubs; unknown ones are reported and not passed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

AGENT_FEATURES = frozenset(
    {
        "AddonManagement",
        "ClusterClaim",
        "ClusterProperty",
        "ExecutorValidatingCaches",
        "MultipleHubs",
        "RawFeedbackJsonString",
        "V1beta1CSRAPICompatibility",
    }
)
HUB_FEATURES = frozenset(
    {
        "AddonManagement",
        "CleanUpCompletedManifestWork",
        "CloudEventsDrivers",
        "ClusterImporter",
        "ClusterProfile",
        "DefaultClusterSet",
        "ManagedClusterAutoApproval",
        "ManifestWorkReplicaSet",
        "NilExecutorValidating",
        "ResourceCleanup",
        "V1beta1CSRAPICompatibility",
    }
)


def find_unknown_gates(rows: Iterable[Mapping[str, Any]], known: frozenset[str]) -> list[str]:
    """Return the unknown features, in order."""
    return sorted({str(row.get("feature")) for row in rows} - known)


def format_gates(rows: Iterable[Mapping[str, Any]], known: frozenset[str]) -> str:
    """Return the known switches as one flag value; the last word on a feature counts."""
    chosen = {str(row.get("feature")): row.get("mode") == "Enable" for row in rows}
    return ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(chosen.items()) if name in known)
