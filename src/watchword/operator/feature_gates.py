"""The feature gates of agents and hubs; unknown ones are reported and not passed on."""

from collections.abc import Mapping
from typing import Any

from watchword.api.accounts import ACCOUNTS_GATE
from watchword.api.meta import Object, rows_at
from watchword.registration.hub.installation import EXECUTOR_GATE

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
        EXECUTOR_GATE,
        "ResourceCleanup",
        "V1beta1CSRAPICompatibility",
    }
)


def gates_of(obj: Object) -> list[Mapping[str, Any]]:
    """Return the feature gates of a Klusterlet or ClusterManager; of several rows about one feature the last counts."""
    parts = ("registrationConfiguration", "workConfiguration", "addOnManagerConfiguration")
    return [row for part in parts for row in rows_at(obj, "spec", part, "featureGates")]


def is_enabled(obj: Object, feature: str) -> bool:
    return _switches(obj).get(feature, False)


def format_gates(obj: Object, known: frozenset[str]) -> list[str]:
    """Return the flag with the known switches; none when there are none."""
    chosen = [f"{name}={str(on).lower()}" for name, on in sorted(_switches(obj).items()) if name in known]
    return [f"--feature-gates={','.join(chosen)}"] if chosen else []


def _switches(obj: Object) -> dict[str, bool]:
    return {str(row.get("feature")): row.get("mode") == "Enable" for row in gates_of(obj)}
