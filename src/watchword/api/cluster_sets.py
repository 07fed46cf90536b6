"""Which clusters a ManagedClusterSet selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import Object
from watchword.api.names import Label
from watchword.api.selectors import parse_structured_selector


def is_member(cluster_set: Object, labels: Mapping[str, str]) -> bool:
    """Whether a cluster with these labels belongs to the set; an unknown selector type selects nothing."""
    selector: Mapping[str, Any] = (cluster_set.get("spec") or {}).get("clusterSelector") or {}
    match selector.get("selectorType", "ExclusiveClusterSetLabel"):
        case "ExclusiveClusterSetLabel":
            return labels.get(Label.CLUSTER_SET) == str(cluster_set["metadata"]["name"])
        case "LabelSelector":
            return parse_structured_selector(selector.get("labelSelector") or {}).matches(labels)
        case _:
            return False
