"""Namespaces and service accounts: what the server adds and what it refuses."""

from __future__ import annotations

from watchword.api.json import copy_json
from watchword.api.meta import Object
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.kinds.metadata import finalizer_errors
from watchword.apiserver.model import FieldError, Operation

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"


def default_namespace(obj: Object) -> None:
    """Label a namespace with its name; its writer manages the label."""
    metadata = obj.get("metadata") or {}
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


def prepare_namespace(operation: Operation) -> None:
    """Restore the name label and the finalizer; status and finalizers change under their own endpoints."""
    new, old = operation.new, operation.old
    if new is None:
        return
    metadata = new.setdefault("metadata", {})
    labels = metadata["labels"] = metadata.get("labels") or {}
    labels[NAME_LABEL] = metadata.get("name") or operation.key.name
    if old is None:
        new["status"] = {"phase": "Active"}
        spec = new["spec"] = new.get("spec") or {}
        spec["finalizers"] = list(dict.fromkeys([*(spec.get("finalizers") or []), FINALIZER]))
        return
    if operation.subresource != "status":
        new["status"] = copy_json(old.get("status") or {})
    if operation.subresource != "finalize":
        new["spec"] = copy_json(old.get("spec") or {})


def validate_namespace(operation: Operation) -> list[FieldError]:
    """Validate the finalizers of the spec."""
    spec = (operation.new or {}).get("spec") or {}
    if operation.old is not None and operation.subresource != "finalize":
        return []
    return [
        error
        for index, finalizer in enumerate(spec.get("finalizers") or [])
        for error in _finalizer_errors(finalizer, f"spec.finalizers[{index}]")
    ]


def _finalizer_errors(finalizer: str, path: str) -> list[FieldError]:
    found = list(finalizer_errors([finalizer], path))
    if "/" not in finalizer and finalizer not in _STANDARD:
        found.append(invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified"))
    return found


_STANDARD = frozenset({FINALIZER, "orphan", "foregroundDeletion"})


def prepare_service_account(operation: Operation) -> None:
    """Reduce the named secrets to their names."""
    new = operation.new or {}
    if new.get("secrets"):
        new["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in new["secrets"]]
