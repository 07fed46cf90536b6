"""Tells the ServiceAccounts, and their rights, that the hub made for an add-on from those of others."""

from __future__ import annotations

from collections.abc import Callable

from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.time import parse_rfc3339


def is_labeled_for(addon: str) -> Callable[[Object], bool]:
    """Return the test whether an object is marked as made for an add-on of this name, whichever it was."""

    def test(obj: Object) -> bool:
        labels = labels_of(obj)
        return labels.get(Label.TOKEN_ADDON) == addon and labels.get(Label.TOKEN_INFRASTRUCTURE) == "true"

    return test


def is_made_for(addon: Addon) -> Callable[[Object], bool]:
    """Return the test whether an object was made for this very add-on: marked, and owned by its UID.

    Managers of Open Cluster Management name no owner. What they made is this add-on's when it is younger than the
    add-on, so that tokens go on to work when a fleet changes its hub's controllers.
    """
    marked = is_labeled_for(addon.name)

    def test(obj: Object) -> bool:
        owners = obj["metadata"].get("ownerReferences") or []
        own = any(owner.get("uid") == addon.uid for owner in owners)
        return marked(obj) and (own or (not owners and _is_younger(obj, addon.object)))

    return test


def _is_younger(obj: Object, addon: Object) -> bool:
    made, asked = (parse_rfc3339(one["metadata"].get("creationTimestamp") or "") for one in (obj, addon))
    return made is not None and asked is not None and made >= asked


def addon_from_labels(obj: Object) -> list[ObjectKey]:
    """Map what was made for an add-on to that add-on."""
    name = labels_of(obj).get(Label.TOKEN_ADDON)
    marked = name and labels_of(obj).get(Label.TOKEN_INFRASTRUCTURE) == "true"
    return [ObjectKey(obj["metadata"].get("namespace") or "", name)] if name and marked else []
