"""What has to change for an object to hold what a manifest says, and nothing else.

A manifest names fields; whatever it does not name belongs to others and stays: defaults, labels of other tools,
the replicas of an autoscaler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import Object

_MISSING = object()
_NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")


def choose_manifest_patch(present: Object, wanted: Object, *, strict: bool = False) -> Object | None:
    """Return the merge patch that makes an object hold what is wanted; None when it does.

    A server fills in defaults everywhere, also inside the items of lists; `strict` counts those as differences, for
    nobody can tell them from what an intruder has added there.
    """
    content = {name: value for name, value in wanted.items() if name not in _NOT_CONTENT}
    patch = _difference(present, content, strict=strict)
    metadata: Object = {}
    for field in ("labels", "annotations"):
        here = present["metadata"].get(field) or {}
        change = _difference(here, wanted["metadata"].get(field) or {}, strict=strict)
        if change:
            metadata[field] = change
    if metadata:
        patch["metadata"] = metadata
    return patch or None


def _difference(present: Mapping[str, Any], wanted: Mapping[str, Any], *, strict: bool) -> Object:
    patch: Object = {}
    for name, value in wanted.items():
        here = present.get(name, _MISSING)
        if isinstance(value, Mapping) and isinstance(here, Mapping):
            inner = _difference(here, value, strict=strict)
            if inner:
                patch[name] = inner
        elif not _is_equal(here, value, strict=strict):
            patch[name] = value
    return patch


def _is_equal(here: Any, value: Any, *, strict: bool) -> bool:
    if here is _MISSING or here is None:
        return not value  # servers leave out what is empty, zero or false
    if isinstance(value, list):
        if strict:
            return bool(here == value)
        return isinstance(here, list) and len(here) == len(value) and all(map(_holds, here, value))
    return _holds(here, value)


def _holds(here: Any, value: Any) -> bool:
    if isinstance(value, Mapping):
        return isinstance(here, Mapping) and not _difference(here, value, strict=False)
    if isinstance(value, list):
        return _is_equal(here, value, strict=False)
    return bool(here == value) and isinstance(here, bool) == isinstance(value, bool)


def current_values(present: Any, patch: Any) -> Any:
    """Return what an object says now where a patch would change it."""
    if not isinstance(patch, Mapping) or not isinstance(present, Mapping):
        return present
    return {name: current_values(present.get(name), change) for name, change in patch.items()}
