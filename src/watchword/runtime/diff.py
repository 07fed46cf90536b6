"""Compares an object with what is wanted of it, and chooses the merge patch that is missing."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from watchword.api.meta import Object

_MISSING = object()
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


class Comparison(Enum):
    """Which differences between an object and what is wanted of it count. Fields that are not wanted never do."""

    NAMED_FIELDS = auto()  # a wanted field is equal as a whole: what others add inside it is removed
    CONTAINS = auto()  # others may add fields inside, and servers their defaults
    EXACT_LISTS = auto()  # as CONTAINS, but lists are equal: a default and an intrusion look the same there


def choose_changes(
    present: Object, wanted: Object, comparison: Comparison = Comparison.NAMED_FIELDS, *, without_owner: str = ""
) -> Object | None:
    """Return the merge patch that makes an object hold what is wanted, or None when it does.

    Labels, annotations, owners and finalizers that others added stay, except for the owner of the UID `without_owner`.
    """
    content = {name: value for name, value in wanted.items() if name not in _IDENTITY}
    if comparison is Comparison.NAMED_FIELDS:
        patch = merge_patch({name: present[name] for name in content if name in present}, content)
    else:
        patch = _missing_content(present, content, strict=comparison is Comparison.EXACT_LISTS)
    here, there = present.get("metadata") or {}, wanted.get("metadata") or {}
    metadata = _missing_metadata(here, there)
    owners = choose_owner_references(here, there.get("ownerReferences") or (), without=without_owner)
    if owners is not None:
        metadata["ownerReferences"] = owners or None
    if comparison is Comparison.NAMED_FIELDS and set(there.get("finalizers") or ()) - set(here.get("finalizers") or ()):
        metadata["finalizers"] = list(dict.fromkeys([*(here.get("finalizers") or ()), *there["finalizers"]]))
    return {**patch, "metadata": metadata} if metadata else patch or None


def choose_owner_references(metadata: Mapping[str, Any], wanted: Any = (), *, without: str = "") -> list[Object] | None:
    """Return the owner references that an object should have, or None when it has them; those of others stay."""
    present = metadata.get("ownerReferences") or []
    kept = [row for row in present if not without or row.get("uid") != without]
    missing = [row for row in wanted if row["uid"] not in {one.get("uid") for one in kept}]
    return [*kept, *missing] if missing or len(kept) != len(present) else None


def merge_patch(old: Any, new: Any) -> Any:
    """Return the JSON merge patch that turns one value into another; removed fields become null."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    gone = {name: None for name in old if name not in new}
    changed = {name: merge_patch(old.get(name), value) for name, value in new.items() if old.get(name) != value}
    return {**gone, **changed}


def apply_merge_patch(present: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch; a field that is null in the patch is removed."""
    if not isinstance(patch, Mapping):
        return patch
    before = present if isinstance(present, Mapping) else {}
    kept = {name: value for name, value in before.items() if name not in patch}
    changed = {name: apply_merge_patch(before.get(name), value) for name, value in patch.items() if value is not None}
    return {**kept, **changed}


def current_values(present: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping) or not isinstance(present, Mapping):
        return present
    return {name: current_values(present.get(name), change) for name, change in patch.items()}


def _missing_metadata(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    changes: Object = {}
    for field in ("labels", "annotations"):
        here = present.get(field) or {}
        missing = {name: value for name, value in (wanted.get(field) or {}).items() if here.get(name) != value}
        if missing:
            changes[field] = missing
    return changes


def _missing_content(present: Mapping[str, Any], wanted: Mapping[str, Any], *, strict: bool) -> Object:
    patch: Object = {}
    for name, value in wanted.items():
        here = present.get(name, _MISSING)
        if isinstance(value, Mapping) and isinstance(here, Mapping):
            inner = _missing_content(here, value, strict=strict)
            if inner:
                patch[name] = inner
        elif not _is_held(here, value, strict=strict):
            patch[name] = value
    return patch


def _is_held(here: Any, value: Any, *, strict: bool) -> bool:
    if here is _MISSING or here is None:
        return not value  # servers leave out what is empty, zero or false
    if isinstance(value, Mapping):
        return isinstance(here, Mapping) and not _missing_content(here, value, strict=False)
    if isinstance(value, list):
        if strict:
            return bool(here == value)
        pairs = zip(here, value, strict=True) if isinstance(here, list) and len(here) == len(value) else None
        return pairs is not None and all(_is_held(one, other, strict=False) for one, other in pairs)
    return bool(here == value) and isinstance(here, bool) == isinstance(value, bool)
