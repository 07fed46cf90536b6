"""An add-on's rights on the hub, bound to the rebuilt subject and never to a claimed one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from watchword.addons.definition import AddonInstance, Grant
from watchword.api.meta import Object, ObjectKey, labels_of, owner_reference
from watchword.api.names import Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, RBAC_GROUP, ROLE_BINDINGS, ROLES


def _name(instance: AddonInstance, grant: Grant) -> ObjectKey:
    if not grant.namespace or grant.namespace == instance.cluster.name:
        return ObjectKey(instance.cluster.name, f"open-cluster-management:{instance.addon.name}:{grant.name}:agent")
    # In a namespace that clusters share, the name contains the cluster: otherwise they would overwrite each other.
    name = f"open-cluster-management:{instance.cluster.name}:{instance.addon.name}:{grant.name}:agent"
    return ObjectKey(grant.namespace, name)


def _metadata(instance: AddonInstance, key: ObjectKey) -> Object:
    labels = {Label.ADDON_NAME: instance.addon.name, Label.ADDON_CLUSTER: instance.cluster.name}
    if key.namespace != instance.cluster.name:
        return {"labels": labels}  # owners live in the same namespace; this one is removed by its mark
    return {"labels": labels, "ownerReferences": [owner_reference(instance.addon.object)]}


def role_manifest(instance: AddonInstance, grant: Grant) -> Object:
    """Return the Role that is made from a grant's rules."""
    key = _name(instance, grant)
    return ROLES.manifest(key, metadata=_metadata(instance, key), rules=list(grant.rules))


def binding_manifest(instance: AddonInstance, grant: Grant, subject: Object) -> Object:
    """Return the binding of a grant to the add-on's agent on this cluster, which is this RBAC subject."""
    key = _name(instance, grant)
    kind, name = (grant.role_kind, grant.role) if grant.role else ("Role", key.name)
    return ROLE_BINDINGS.manifest(
        key,
        metadata=_metadata(instance, key),
        roleRef={"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
        subjects=[subject],
    )


def is_made_for(addon: ObjectKey) -> Callable[[Object], bool]:
    """Return the test whether a role or binding was made for an add-on's agent.

    Every user who may edit an object can set labels. So its name must be ours, too, and in the cluster's own namespace
    the add-on must own it: a forged label makes us neither delete nor adopt another owner's object.
    """

    def test(obj: Object) -> bool:
        labels, key = labels_of(obj), ObjectKey.of(obj)
        marked = (labels.get(Label.ADDON_NAME), labels.get(Label.ADDON_CLUSTER)) == (addon.name, addon.namespace)
        at_home = key.namespace == addon.namespace
        whose = addon.name if at_home else f"{addon.namespace}:{addon.name}"
        named = key.name.startswith(f"open-cluster-management:{whose}:") and key.name.endswith(":agent")
        return marked and named and (not at_home or _is_owned(obj, addon.name))

    return test


def _is_owned(obj: Object, addon: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any((owner.get("kind"), owner.get("name")) == (MANAGED_CLUSTER_ADDONS.kind, addon) for owner in owners)


def addon_from_labels(obj: Object) -> list[ObjectKey]:
    """Map a role or binding to the add-on it was made for."""
    labels = labels_of(obj)
    cluster, name = labels.get(Label.ADDON_CLUSTER), labels.get(Label.ADDON_NAME)
    return [ObjectKey(cluster, name)] if cluster and name else []


def wanted_keys(instance: AddonInstance, grants: Iterable[Grant]) -> set[ObjectKey]:
    """Return the keys of everything that the grants make."""
    return {_name(instance, grant) for grant in grants}
