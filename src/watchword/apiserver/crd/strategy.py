"""What happens to a CustomResourceDefinition on its way to the store."""

from watchword.api.meta import Object, finalizers_of
from watchword.api.time import parse_rfc3339
from watchword.apiserver.crd.definition import (
    CLEANUP_FINALIZER,
    PENDING,
    names_of,
    spec_of,
    status_of,
    storage_version,
    with_conditions,
)
from watchword.apiserver.crd.validation import definition_errors
from watchword.apiserver.kinds.from_openapi import text, texts
from watchword.apiserver.serving.model import FieldError, Operation


def default_definition(definition: Object) -> None:
    spec, names = spec_of(definition), names_of(definition)
    kind = text(names, "kind")
    if not text(names, "singular"):
        names["singular"] = kind.lower()
    if not text(names, "listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}


def prepare_definition(operation: Operation) -> None:
    """Initialize the status of a new definition; record every version that objects were stored in."""
    new = operation.new
    if new is None or operation.subresource:
        return
    if operation.old is None:
        new["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    status, storage = status_of(new), storage_version(new)
    stored = list(texts(status, "storedVersions"))
    if storage and storage not in stored:
        new["status"] = {**status, "storedVersions": [*stored, storage]}


def validate_definition(operation: Operation) -> list[FieldError]:
    """Validate a definition; what the status endpoint writes is the control plane's own."""
    if operation.new is None or operation.subresource:
        return []
    return definition_errors(operation.new, operation.old)


def mark_terminating(definition: Object) -> None:
    """Keep a definition, in place, until its objects are deleted; deletion does not change its spec."""
    metadata = definition["metadata"]
    metadata.pop("deletionGracePeriodSeconds", None)
    if metadata.get("generation"):
        metadata["generation"] -= 1
    since = parse_rfc3339(text(metadata, "deletionTimestamp"))
    if since is not None:
        definition["status"] = with_conditions(status_of(definition), [PENDING], since)
    if CLEANUP_FINALIZER not in finalizers_of(definition):
        metadata["finalizers"] = [*finalizers_of(definition), CLEANUP_FINALIZER]
