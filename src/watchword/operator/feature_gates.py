"""The feature gates of agents and hubs; unknown ones are reported and not passed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watchword.api.accounts import ACCOUNTS_GATE

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
        ACCOUNTS_GATE,
        "ManifestWorkReplicaSet",
        "NilExecutorValidating",
        "ResourceCleanup",
        "V1beta1CSRAPICompatibility",
    }
)


def find_unknown_gates(rows: Iterable[Mapping[str, Any]], known: frozenset[str]) -> list[str]:
    return sorted({str(row.get("feature")) for row in rows} - known)


def is_enabled(rows: Iterable[Mapping[str, Any]], feature: str) -> bool:
    """Whether the last row about a feature switches it on."""
    return {str(row.get("feature")): row.get("mode") == "Enable" for row in rows}.get(feature, False)


def format_gates(rows: Iterable[Mapping[str, Any]], known: frozenset[str]) -> str:
    """Return the known switches as one flag value; the last word on a feature counts."""
    chosen = {str(row.get("feature")): row.get("mode") == "Enable" for row in rows}
    return ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(chosen.items()) if name in known)
