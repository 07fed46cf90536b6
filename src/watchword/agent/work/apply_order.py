"""In which order the objects of a work are applied: first what others stand on."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.agent.work.manifests import ResolvedManifest

_RANKS: tuple[tuple[str, ...], ...] = (
    (
        "PriorityClass",
        "Namespace",
        "CustomResourceDefinition",
        "StorageClass",
        "PersistentVolume",
        "PodSecurityPolicy",
    ),
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ("NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"),
    ("Secret", "ConfigMap", "PersistentVolumeClaim"),
    ("Service",),
    (
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "StatefulSet",
        "Job",
        "CronJob",
    ),
    (
        "APIService",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
)
_RANK_OF = {kind: apply_rank for apply_rank, kinds in enumerate(_RANKS) for kind in kinds}
LAST = 1000


def apply_rank(kind: str) -> int:
    """Return the place of a kind: what is not built in comes last, when its definition may be served."""
    return _RANK_OF.get(kind, LAST)


def choose_apply_order(manifests: Iterable[ResolvedManifest]) -> list[ResolvedManifest]:
    """Return the manifests in the order in which to apply them; those of one apply_rank stay as they were."""
    return sorted(manifests, key=lambda one: apply_rank(one.meta.kind))
