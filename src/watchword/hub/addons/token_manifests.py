"""What lets an add-on have tokens on the hub, as manifests."""

from __future__ import annotations

from watchword.api.addon import Addon, service_accounts
from watchword.api.meta import Object, ObjectKey, Resource, owner_reference
from watchword.api.names import Label
from watchword.api.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.hub.cluster_rbac import RBAC_GROUP, rule


def role_name(addon: str) -> str:
    """Return the name of the Role, and of its binding, that lets the agent ask for the add-on's tokens."""
    return f"{addon}-token-role"


def _metadata(addon: Addon) -> Object:
    return {
        "labels": {Label.TOKEN_ADDON: addon.name, Label.TOKEN_INFRASTRUCTURE: "true"},
        "ownerReferences": [owner_reference(addon.object)],
    }


def account_manifest(addon: Addon, account: str) -> Object:
    """Return the ServiceAccount that the add-on's agent will be on the hub; no pod runs as it."""
    return SERVICE_ACCOUNTS.manifest(
        ObjectKey(addon.cluster, account), metadata=_metadata(addon), automountServiceAccountToken=False
    )


def role_manifest(addon: Addon, account: str) -> Object:
    """Return the right to ask for tokens of that one account.

    The second rule is the shipped system's: it lets the agent hear of tokens over its own transport, and means
    nothing to an API server.
    """
    rules = [
        rule("", "serviceaccounts/token", ["create"], [account]),
        rule("", "serviceaccounts/token", ["subscribe"]),
    ]
    return ROLES.manifest(ObjectKey(addon.cluster, role_name(addon.name)), metadata=_metadata(addon), rules=rules)


def binding_manifest(addon: Addon, subjects: list[Object]) -> Object:
    """Return the binding to whoever is the cluster."""
    name = role_name(addon.name)
    return ROLE_BINDINGS.manifest(
        ObjectKey(addon.cluster, name),
        metadata=_metadata(addon),
        roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": name},
        subjects=subjects,
    )


def managed_objects(key: ObjectKey) -> list[tuple[Resource, ObjectKey]]:
    """Return everything that may have been made for an add-on, the rights before the account."""
    name = ObjectKey(key.namespace, role_name(key.name))
    accounts = [
        (SERVICE_ACCOUNTS, ObjectKey(key.namespace, account)) for account in service_accounts(key.namespace, key.name)
    ]
    return [(ROLE_BINDINGS, name), (ROLES, name), *accounts]
