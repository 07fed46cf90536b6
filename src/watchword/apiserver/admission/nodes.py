"""New nodes get no pods until they report that they are ready."""

from __future__ import annotations

from watchword.apiserver.model import Operation

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


async def taint_new_nodes(operation: Operation) -> None:
    """Put the taint on a node that is created without it."""
    kind = operation.kind.resource
    if operation.old is not None or operation.new is None or (kind.group, kind.kind) != ("", "Node"):
        return
    spec = operation.new.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == NOT_READY["key"] and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, dict(NOT_READY)]
