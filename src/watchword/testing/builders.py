"""Builders of objects for tests: the caller names what matters, the rest has defaults."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from watchword.api import resources
from watchword.api.meta import Object, ObjectKey


def a_namespace(name: str, **metadata: Any) -> Object:
    return resources.NAMESPACES.manifest(ObjectKey.cluster(name), metadata=metadata)


def a_secret(
    name: str, *, namespace: str, data: Mapping[str, str | bytes] | None = None, kind: str = "Opaque", **metadata: Any
) -> Object:
    """Return a Secret; the values of `data` are not base64-encoded."""
    encoded = {
        name: base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
        for name, value in (data or {}).items()
    }
    return resources.SECRETS.manifest(ObjectKey(namespace, name), metadata=metadata, type=kind, data=encoded)


def a_config_map(name: str, *, namespace: str, data: Mapping[str, str] | None = None, **metadata: Any) -> Object:
    return resources.CONFIG_MAPS.manifest(ObjectKey(namespace, name), metadata=metadata, data=dict(data or {}))


def a_service_account(name: str, *, namespace: str, **metadata: Any) -> Object:
    return resources.SERVICE_ACCOUNTS.manifest(ObjectKey(namespace, name), metadata=metadata)


def a_cluster(name: str, *, accepted: bool = False, lease_seconds: int = 60, **metadata: Any) -> Object:
    spec = {"hubAcceptsClient": accepted, "leaseDurationSeconds": lease_seconds}
    return resources.MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), metadata=metadata, spec=spec)


def an_addon(name: str, *, cluster: str, **metadata: Any) -> Object:
    return resources.MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(cluster, name), metadata=metadata, spec={})


def a_cluster_role(
    name: str, *, verbs: Sequence[str], of: Sequence[str], group: str = "", names: Sequence[str] = ()
) -> Object:
    rule: Object = {"apiGroups": [group], "resources": list(of), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return resources.CLUSTER_ROLES.manifest(ObjectKey.cluster(name), rules=[rule])


def a_cluster_role_binding(name: str, *, role: str, users: Sequence[str] = (), groups: Sequence[str] = ()) -> Object:
    kinds = [("User", user) for user in users] + [("Group", group) for group in groups]
    return resources.CLUSTER_ROLE_BINDINGS.manifest(
        ObjectKey.cluster(name),
        roleRef={"apiGroup": resources.RBAC_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[{"apiGroup": resources.RBAC_GROUP, "kind": kind, "name": who} for kind, who in kinds],
    )
