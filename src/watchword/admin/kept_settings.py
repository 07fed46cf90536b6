"""What a repeated `init` or `join` leaves as it is: every setting that the command line does not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import Object
from watchword.drivers.options import DRIVER_LIST

UNITED_BY = {"featureGates": "feature"}
"""Lists whose entries are settings of their own: an entry that is not named stays."""

REPLACED_BY = {DRIVER_LIST: "authType"}
"""Lists that are named as a whole: an entry that is not named goes, one that is named keeps its other fields."""


def keep_unnamed(present: Mapping[str, Any], named: Mapping[str, Any]) -> Object:
    """Return the settings that are named over those that are present."""
    merged = dict(present)
    for field, value in named.items():
        merged[field] = _merge_field(field, present.get(field), value)
    return merged


def select_settings(present: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]]) -> Object:
    """Return the fields of a spec that a command sets: the others belong to other writers, or are defaults."""
    return {
        name: select_settings(present[name], inner) if inner and isinstance(present[name], Mapping) else present[name]
        for name, inner in fields.items()
        if name in present
    }


def _merge_field(field: str, present: Any, named: Any) -> Any:
    if isinstance(present, Mapping) and isinstance(named, Mapping):
        return keep_unnamed(present, named)
    key = UNITED_BY.get(field) or REPLACED_BY.get(field)
    if key is None or not isinstance(present, list):
        return named
    before = {row.get(key): row for row in present if isinstance(row, Mapping)}
    entries = {row.get(key): keep_unnamed(before.get(row.get(key)) or {}, row) for row in named}
    return list(({**before, **entries} if field in UNITED_BY else entries).values())
