"""The ManagedCluster as the hub and the agent read it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from watchword.api import meta, names
from watchword.api.conditions import is_true
from watchword.api.limits import DEFAULT_LEASE_SECONDS, LONGEST_LEASE
from watchword.api.selectors import SelectorError, parse_structured_selector
from watchword.api.sensitive import HiddenFields
from watchword.api.time import parse_rfc3339
from watchword.api.validation import is_dns_label, parse_seconds


class Cluster(HiddenFields, frozen=True):
    """A ManagedCluster, read from its object. Labels and annotations are claims that its agent may edit."""

    hidden = ("object",)

    name: str
    uid: str
    accepted: bool  # the requested value; the hub verifies that the requester was entitled to it
    deleting: bool
    lease_duration: timedelta
    cluster_set: str
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str]
    object: meta.Object

    @classmethod
    def read(cls, obj: meta.Object) -> Cluster:
        """Read the object; absent fields take the schema's defaults."""
        spec = meta.mapping_at(obj, "spec")
        asked, shortest = spec.get("leaseDurationSeconds") or DEFAULT_LEASE_SECONDS, timedelta(seconds=1)
        lease = parse_seconds(asked, shortest=shortest, longest=LONGEST_LEASE)
        return cls(
            name=obj["metadata"]["name"],
            uid=meta.uid_of(obj),
            accepted=spec.get("hubAcceptsClient") is True,
            deleting=meta.is_deleting(obj),
            lease_duration=lease or timedelta(seconds=DEFAULT_LEASE_SECONDS),  # its agent may write it
            cluster_set=meta.labels_of(obj).get(names.Label.CLUSTER_SET, ""),
            finalizers=tuple(meta.finalizers_of(obj)),
            annotations=meta.annotations_of(obj),
            object=obj,
        )

    @property
    def key(self) -> meta.ObjectKey:
        """Its own key, and that of its namespace."""
        return meta.ObjectKey.cluster(self.name)

    @property
    def lease_key(self) -> meta.ObjectKey:
        return meta.ObjectKey(self.name, names.CLUSTER_LEASE)

    @property
    def deleted_at(self) -> datetime | None:
        """When its deletion was asked for, by the API server's clock."""
        return parse_rfc3339(str(self.object["metadata"].get("deletionTimestamp") or ""))

    @property
    def name_used_before(self) -> bool:
        """Whether certificates of an earlier cluster of this name may be valid; the hub's note, not a claim."""
        return names.Annotation.NAME_USED_BEFORE in self.annotations

    @property
    def claimed_uid(self) -> str:
        """The identity that the cluster claims; not verified."""
        return self.annotations.get(names.Annotation.CLUSTER_UID, "")


def is_accepted(cluster: meta.Object) -> bool:
    """Whether the administrator accepts a ManagedCluster, and the hub has verified and granted it."""
    return Cluster.read(cluster).accepted and is_true(cluster, names.ConditionType.HUB_ACCEPTED)


def validate_cluster_name(name: str) -> str | None:
    if not is_dns_label(name):
        return (
            f"{name!r} is not a DNS label: use at most 63 lower-case letters, digits and '-', "
            "beginning and ending with a letter or digit"
        )
    if name in names.HUB_NAMESPACES:
        return f"{name!r} is a namespace of the hub itself: choose another cluster name"
    if name in names.SHARED_GROUP_AND_ROLE_NAMES:
        return f"{name!r} names a group or role that all clusters share: choose another cluster name"
    return None


def is_member(cluster_set: meta.Object, labels: Mapping[str, str]) -> bool:
    """Whether a cluster with these labels belongs to the set; a selector that cannot be read selects nothing."""
    selector = meta.mapping_at(cluster_set, "spec", "clusterSelector")
    match selector.get("selectorType", "ExclusiveClusterSetLabel"):
        case "ExclusiveClusterSetLabel":
            return labels.get(names.Label.CLUSTER_SET) == str(cluster_set["metadata"]["name"])
        case "LabelSelector":
            with suppress(SelectorError):
                return parse_structured_selector(meta.mapping_at(selector, "labelSelector")).matches(labels)
            return False
        case _:
            return False
