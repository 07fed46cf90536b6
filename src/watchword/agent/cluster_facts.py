"""The reported facts about this cluster: version, size, claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from watchword.api.meta import Object, labels_of
from watchword.api.names import Label
from watchword.api.quantity import UNITS, parse_quantity, quantity_suffix

RESERVED_CLAIMS = frozenset(
    {
        "id.k8s.io",
        "kubeversion.open-cluster-management.io",
        "platform.open-cluster-management.io",
        "product.open-cluster-management.io",
    }
)


class ClaimPolicy(Struct, frozen=True):
    """Which claims reach the hub."""

    max_custom: int = 20
    reserved_suffixes: tuple[str, ...] = ()

    def is_reserved(self, name: str) -> bool:
        """Whether the claim is always reported."""
        return name in RESERVED_CLAIMS or any(name.endswith(suffix) for suffix in self.reserved_suffixes)


def sum_resources(nodes: Iterable[Object], field: str) -> dict[str, str]:
    """Add up `capacity` or `allocatable` over nodes; what cannot be read counts as nothing."""
    totals: dict[str, Fraction] = {}
    shapes: dict[str, str] = {}
    for node in nodes:
        if field == "allocatable" and (node.get("spec") or {}).get("unschedulable"):
            continue
        for name, text in ((node.get("status") or {}).get(field) or {}).items():
            totals[name] = totals.get(name, Fraction(0)) + (parse_quantity(str(text)) or 0)
            shapes.setdefault(name, str(text))
    return {name: _write_sum(totals[name], shapes[name]) for name in sorted(totals)}


def _write_sum(total: Fraction, shape: str) -> str:
    """Write a sum in the unit of the first part, or in the next smaller one that keeps it whole."""
    suffix = quantity_suffix(shape)
    for unit in (suffix if suffix in UNITS else "", ""):
        scaled = total / UNITS[unit]
        if scaled.denominator == 1:
            return f"{scaled}{unit}"
    return f"{round(total * 1000)}m"


def choose_claims(claims: Sequence[Object], policy: ClaimPolicy) -> list[dict[str, str]]:
    """Return the claims to report: reserved ones first, then as many of the user's as the policy allows."""
    rows = sorted(
        (claim["metadata"]["name"], str((claim.get("spec") or {}).get("value") or ""))
        for claim in claims
        if Label.SPOKE_ONLY not in labels_of(claim)
    )
    reserved = [row for row in rows if policy.is_reserved(row[0])]
    custom = [row for row in rows if not policy.is_reserved(row[0])][: policy.max_custom]
    return [{"name": name, "value": value} for name, value in (*reserved, *custom) if value]


def cluster_status_fields(version: str, nodes: Sequence[Object], claims: list[dict[str, str]]) -> dict[str, Any]:
    """Return the part of the status that describes the cluster."""
    return {
        "version": {"kubernetes": version},
        "capacity": sum_resources(nodes, "capacity"),
        "allocatable": sum_resources(nodes, "allocatable"),
        "clusterClaims": claims,
    }
