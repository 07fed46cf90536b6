"""What add-ons' agents typically need on their own cluster, ready to be put beside their manifests."""

from __future__ import annotations

from watchword.addons.definition import AddonInstance
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import LEASES, RBAC_GROUP, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS


def lease_manifests(instance: AddonInstance) -> list[Object]:
    """Return an account named after the add-on that may renew the lease of that name, and nothing else.

    An agent that runs as this account reports its health by the lease. `create` cannot be restricted to a name;
    everything else is.
    """
    name, namespace = instance.addon.name, instance.addon.namespace_on_cluster()
    key = ObjectKey(namespace, name)
    rule = {"apiGroups": [LEASES.group], "resources": [LEASES.plural]}
    rules = [{**rule, "verbs": ["create"]}, {**rule, "verbs": ["get", "patch", "update"], "resourceNames": [name]}]
    return [
        SERVICE_ACCOUNTS.manifest(key),
        ROLES.manifest(key, rules=rules),
        ROLE_BINDINGS.manifest(
            key,
            roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": name},
            subjects=[{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        ),
    ]
