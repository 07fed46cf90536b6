"""What has to change for an object to hold what a manifest says, and nothing else.

A manifest names fields; whatever it does not name belongs to others and stays: defaults, labels of other tools,
the replicas of an autoscaler. What an earlier version of the manifest named and this one does not is taken back,
but only when the server's own record of field managers says that nobody else set it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from watchword.api.meta import Object

Fields = Mapping[str, Any]
"""Fields as a server records them: `f:name`, `k:{key}`, `v:value`, each over the fields below it."""

_MISSING = object()
_NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")


def choose_changes(present: Object, wanted: Object, owned: Fields | None = None) -> Object | None:
    """Return the merge patch that makes an object hold what is wanted; None when it does.

    With `owned`, the fields that only we have set, what is no longer wanted of them goes, and lists that are ours as
    a whole must be equal; without, lists may hold more than was asked for, as a server fills in defaults.
    """
    content = {name: value for name, value in wanted.items() if name not in _NOT_CONTENT}
    content_owned = None if owned is None else {m: f for m, f in owned.items() if m[2:] not in _NOT_CONTENT}
    patch = _difference(present, content, content_owned)
    metadata = _metadata_changes(present, wanted, owned)
    if metadata:
        patch["metadata"] = metadata
    return patch or None


def _metadata_changes(present: Object, wanted: Object, owned: Fields | None) -> Object:
    changes: Object = {}
    for field in ("labels", "annotations"):
        here = present["metadata"].get(field) or {}
        below = None if owned is None else (owned.get("f:metadata") or {}).get(f"f:{field}")
        change = _difference(here, wanted["metadata"].get(field) or {}, below)
        if change:
            changes[field] = change
    return changes


def _difference(present: Mapping[str, Any], wanted: Mapping[str, Any], owned: Fields | None) -> Object:
    patch: Object = {}
    for name, value in wanted.items():
        here = present.get(name, _MISSING)
        below = None if owned is None else owned.get(f"f:{name}")
        if isinstance(value, Mapping) and isinstance(here, Mapping):
            inner = _difference(here, value, below)
            if inner:
                patch[name] = inner
        elif not _agrees(here, value, below):
            patch[name] = value
    for mark, below in (owned or {}).items():
        name = mark[2:]
        if mark.startswith("f:") and name not in wanted and name in present:
            patch[name] = _without(present[name], below)
    return patch


def _without(value: Any, owned: Fields) -> Any:
    """Return the merge patch that takes back what is ours inside a value; None when that is all of it."""
    if not isinstance(value, Mapping):
        return None
    inner = {
        mark[2:]: _without(value[mark[2:]], below)
        for mark, below in owned.items()
        if mark.startswith("f:") and mark[2:] in value
    }
    everything = set(inner) == set(value) and all(part is None for part in inner.values())
    return None if everything or not inner else inner


def _agrees(here: Any, value: Any, owned: Fields | None) -> bool:
    if here is _MISSING or here is None:
        return not value  # servers leave out what is empty, zero or false
    if isinstance(value, Mapping):
        return isinstance(here, Mapping) and not _difference(here, value, owned)
    if isinstance(value, list):
        return isinstance(here, list) and _lists_agree(here, value, owned)
    return bool(here == value) and isinstance(here, bool) == isinstance(value, bool)


def _lists_agree(here: list[Any], value: list[Any], owned: Fields | None) -> bool:
    if owned is not None and not owned:  # ours as a whole
        return here == value
    if owned and has_unwanted(owned, value):
        return False
    return len(here) == len(value) and all(_agrees(one, other, None) for one, other in zip(here, value, strict=True))


def has_unwanted(owned: Fields, wanted: Any) -> bool:
    """Whether we own anything below that is not wanted any more."""
    for mark, below in owned.items():
        if mark == ".":
            continue
        found, value = _select(mark, wanted)
        if not found or has_unwanted(below, value):
            return True
    return False


def _select(mark: str, wanted: Any) -> tuple[bool, Any]:
    """Return whether what a mark stands for is wanted, and what is wanted of it."""
    kind, text = mark[:2], mark[2:]
    if kind == "f:":
        return (True, wanted[text]) if isinstance(wanted, Mapping) and text in wanted else (False, None)
    if kind not in ("k:", "v:") or not isinstance(wanted, list):
        return True, None
    key = orjson.loads(text)
    if kind == "v:":
        return key in wanted, None
    # A server fills in parts of a key that have a default, as the protocol of a port.
    for item in wanted:
        if isinstance(item, Mapping) and all(item.get(name, value) == value for name, value in key.items()):
            return True, {**key, **item}
    return False, None


def owned_alone(present: Object, manager: str) -> Fields:
    """Return the fields of an object that one manager has set and nobody else."""
    ours: Object = {}
    others: list[Fields] = []
    for row in present["metadata"].get("managedFields") or ():
        fields = row.get("fieldsV1") or {}
        if row.get("manager") == manager and not row.get("subresource"):
            ours = _union(ours, fields)
        else:
            others.append(fields)
    for fields in others:
        ours = _minus(ours, fields)
    return ours


def _union(one: Fields, other: Fields) -> Object:
    both = {mark: _union(below, other[mark]) if mark in other else below for mark, below in one.items()}
    return {**other, **both}


def _minus(ours: Fields, others: Fields) -> Object:
    kept: Object = {}
    for mark, below in ours.items():
        if mark not in others:
            kept[mark] = below
        elif below:
            rest = _minus(below, others[mark])
            if rest:
                kept[mark] = rest
    return kept


def excerpt(present: Any, patch: Any) -> Any:
    """Return what an object says now where a patch would change it."""
    if not isinstance(patch, Mapping) or not isinstance(present, Mapping):
        return present
    return {name: excerpt(present.get(name), change) for name, change in patch.items()}
