"""Compatibility with client-side `kubectl apply`, which stores its configuration in an annotation."""

from __future__ import annotations

import orjson

from watchword.api.meta import Object, annotations_of
from watchword.apiserver.fieldmanager.applied_fields import configured_fields
from watchword.apiserver.fieldmanager.compare import compare
from watchword.apiserver.fieldmanager.fieldset import FieldSet, difference
from watchword.apiserver.fieldmanager.shape import ItemWithoutKey
from watchword.apiserver.schema.model import Schema

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"


def kept_since_last_applied(live: Object, schema: Schema) -> FieldSet:
    """Return the fields that client-side apply wrote and that are unchanged since: kubectl may take them over."""
    try:
        remembered = orjson.loads(annotations_of(live).get(LAST_APPLIED) or "null")
    except ValueError:
        return {}
    if not isinstance(remembered, dict) or remembered.get("apiVersion") != live.get("apiVersion"):
        return {}
    try:
        differing = compare(remembered, live, schema)
        fields = configured_fields(remembered, schema)
    except (ItemWithoutKey, AttributeError, TypeError):  # the annotation may contain any text
        return {}
    return difference(difference(fields, differing.changed), differing.removed)


def remember_applied(obj: Object, applied: Object) -> None:
    """Write the applied configuration into the annotation, if the object already has one."""
    if not annotations_of(obj).get(LAST_APPLIED):
        return
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        metadata["annotations"] = {
            key: value for key, value in (metadata["annotations"] or {}).items() if key != LAST_APPLIED
        }
    written = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    obj["metadata"]["annotations"][LAST_APPLIED] = written.decode()
