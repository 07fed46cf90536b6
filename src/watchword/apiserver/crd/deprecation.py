"""The warning that clients of a deprecated version get with every response."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.apiserver.crd.definition import names_of, spec_of, text, versions_of
from watchword.apiserver.discovery.versions import by_priority


def deprecation_of(definition: Object, version: Object) -> str:
    """Return the warning of a version; empty while it is not deprecated."""
    if version.get("deprecated") is not True:
        return ""
    said = version.get("deprecationWarning")
    if isinstance(said, str):
        return said
    group, kind = text(spec_of(definition), "group"), text(names_of(definition), "kind")
    warning = f"{group}/{text(version, 'name')} {kind} is deprecated"
    better = _newer(definition, text(version, "name"))
    return f"{warning}; use {group}/{better} {kind}" if better else warning


def _newer(definition: Object, name: str) -> str:
    usable = [
        text(each, "name") for each in versions_of(definition) if each.get("served") and not each.get("deprecated")
    ]
    ordered = by_priority([*usable, name])
    return ordered[0] if ordered[0] != name else ""
