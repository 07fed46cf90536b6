"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any

from watchword.api.json import copy_json, type_name
from watchword.api.meta import Object
from watchword.apiserver.errors import bad_request


def apply_merge_patch(document: Object, patch: Any) -> Object:
    """Merge a patch into the document, in place, and return it; null removes a field.

    Nothing of the patch is shared with the result, so the same patch can be tried again.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if type(patch) is not dict:
        found = {"integer": "number", "boolean": "bool"}.get(type_name(patch), type_name(patch))
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    _merge(document, patch)
    return document


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif type(value) is not dict:
            document[key] = copy_json(value)
        else:
            present = document.get(key)
            if type(present) is not dict:
                present = document[key] = {}
            _merge(present, value)
