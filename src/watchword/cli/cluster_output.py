"""Prints clusters: rows for people, documents for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from watchword.admin.formatting import format_key
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.quantity import parse_quantity
from watchword.api.text import escape_text
from watchword.api.time import parse_rfc3339
from watchword.cli.token import format_duration_left
from watchword.credentials.certificates.approval import is_pending
from watchword.credentials.certificates.manual_approval import claimed_subject, well_formed_requests

COLUMNS = ("NAME", "ACCEPTED", "JOINED", "AVAILABLE", "SET", "CPU", "MEMORY", "VERSION", "AGE")
NONE = "<none>"
GIBIBYTE = 1024**3


def cluster_row(cluster: Object, now: datetime) -> tuple[str, ...]:
    """Return the cells of one cluster."""
    status = cluster.get("status") or {}
    capacity = status.get("capacity") or {}
    return (
        cluster["metadata"]["name"],
        "true" if (cluster.get("spec") or {}).get("hubAcceptsClient") else "false",
        _condition_status(cluster, ConditionType.JOINED),
        _condition_status(cluster, ConditionType.AVAILABLE),
        labels_of(cluster).get(Label.CLUSTER_SET) or NONE,
        str(capacity.get("cpu") or NONE),
        _memory(capacity.get("memory")),
        (status.get("version") or {}).get("kubernetes") or NONE,
        format_object_age(cluster, now),
    )


def format_object_age(obj: Object, now: datetime) -> str:
    """Return how long an object has been there."""
    created = parse_rfc3339(str(obj["metadata"].get("creationTimestamp") or ""))
    return NONE if created is None else format_duration_left(now - created).replace("<expired>", "0s")


def describe_cluster(cluster: Object, requests: Sequence[Object], now: datetime) -> str:
    """Return the details of one cluster."""
    facts = dict(zip(COLUMNS, cluster_row(cluster, now), strict=True))
    lines = [f"{name.capitalize() + ':':<12}{value}" for name, value in facts.items()]
    claims = (cluster.get("status") or {}).get("clusterClaims") or []
    lines += [f"Claim:      {claim.get('name')}={claim.get('value')}" for claim in claims]
    lines.append("Conditions:")
    lines += [
        f"  {row.get('type')}={row.get('status')} {row.get('reason', '')}: {row.get('message', '')}"
        for row in conditions_of(cluster)
    ]
    pending = [csr for csr in requests if is_pending(csr)]
    if pending:
        lines.append("Pending requests:")
        lines += [f"  {_request(csr)}" for csr in pending]
    return "".join(f"{escape_text(line)}\n" for line in lines)


def without_managed_fields(obj: Object) -> dict[str, Any]:
    """Return the object formatted for people."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _request(csr: Object) -> str:
    keys = [format_key(request.key_thumbprint) for _, request in well_formed_requests([csr])]
    what = f"key {keys[0]}" if keys else f"subject {claimed_subject(csr)!r} does not fit the label"
    return f"{csr['metadata']['name']}: by {(csr.get('spec') or {}).get('username')}, {what}"


def _condition_status(cluster: Object, condition: str) -> str:
    found = find_condition(cluster, condition)
    return NONE if found is None else found.status


def _memory(text: Any) -> str:
    if not text:
        return NONE
    return f"{float(parse_quantity(str(text)) or 0) / GIBIBYTE:.1f}Gi"
