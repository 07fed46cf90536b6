"""The reported facts about this cluster: version, size, claims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from watchword.api.meta import Object, labels_of
from watchword.api.names import Label

RESERVED_CLAIMS = frozenset(
    {
        "id.k8s.io",
        "kubeversion.open-cluster-management.io",
        "platform.open-cluster-management.io",
        "product.open-cluster-management.io",
    }
)

_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+)(?:[eE]([+-]?[0-9]+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?", re.ASCII)
_SCALE = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** (n + 1) for n, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Decimal(1024) ** (n + 1) for n, unit in enumerate("KMGTPE")},
}


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """Which claims reach the hub."""

    max_custom: int = 20
    reserved_suffixes: tuple[str, ...] = ()

    def is_reserved(self, name: str) -> bool:
        """Whether the claim is always reported."""
        return name in RESERVED_CLAIMS or any(name.endswith(suffix) for suffix in self.reserved_suffixes)


def sum_resources(nodes: Iterable[Object], field: str) -> dict[str, str]:
    """Add up `capacity` or `allocatable` over nodes; what cannot be read counts as nothing."""
    totals: dict[str, Decimal] = {}
    shapes: dict[str, str] = {}
    for node in nodes:
        if field == "allocatable" and (node.get("spec") or {}).get("unschedulable"):
            continue
        for name, text in ((node.get("status") or {}).get(field) or {}).items():
            totals[name] = totals.get(name, Decimal(0)) + parse_quantity(str(text))
            shapes.setdefault(name, str(text))
    return {name: _write_quantity(totals[name], shapes[name]) for name in sorted(totals)}


def parse_quantity(text: str) -> Decimal:
    """Read a quantity; zero when it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return Decimal(0)
    number, exponent, unit = match.groups()
    return Decimal(number) * (Decimal(10) ** int(exponent) if exponent else _SCALE[unit or ""])


def _write_quantity(total: Decimal, shape: str) -> str:
    """Write a sum in the unit of the first part, or in the next smaller one that keeps it whole."""
    match = _QUANTITY.fullmatch(shape)
    unit = (match.group(3) if match else "") or ""
    for candidate in (unit, ""):
        scaled = total / _SCALE[candidate]
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{candidate}"
    return f"{int((total * 1000).to_integral_value())}m"


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
