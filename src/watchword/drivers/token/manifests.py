"""What lets an add-on have tokens on the hub, as manifests."""

from __future__ import annotations

from collections.abc import Callable

from watchword.api.addon import Addon, AddonSubject
from watchword.api.meta import Object, ObjectKey, Resource, labels_of, owner_reference
from watchword.api.names import Label
from watchword.api.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.drivers.token.account import account_name, service_accounts
from watchword.runtime.reconcile import Reader

KINDS = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
"""What is made for add-ons whose credential is a token."""


def role_name(addon: str) -> str:
    """Return the name of the Role, and of its binding, that lets the agent request the add-on's tokens."""
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
    """Return the right to request tokens of that one account.

    The second rule is that of OCM: it lets the agent hear of tokens over its own transport, and means nothing to an
    API server.
    """
    tokens = {"apiGroups": [""], "resources": ["serviceaccounts/token"]}
    rules = [{**tokens, "verbs": ["create"], "resourceNames": [account]}, {**tokens, "verbs": ["subscribe"]}]
    return ROLES.manifest(ObjectKey(addon.cluster, role_name(addon.name)), metadata=_metadata(addon), rules=rules)


def binding_manifest(addon: Addon, subjects: list[Object]) -> Object:
    """Return the binding to the subjects that the cluster is."""
    name = role_name(addon.name)
    return ROLE_BINDINGS.manifest(
        ObjectKey(addon.cluster, name),
        metadata=_metadata(addon),
        roleRef={"apiGroup": ROLES.group, "kind": "Role", "name": name},
        subjects=subjects,
    )


def managed_objects(key: ObjectKey) -> list[tuple[Resource, ObjectKey]]:
    """Return everything that may have been made for an add-on, the rights before the account."""
    name = ObjectKey(key.namespace, role_name(key.name))
    accounts = [
        (SERVICE_ACCOUNTS, ObjectKey(key.namespace, account)) for account in service_accounts(key.namespace, key.name)
    ]
    return [(ROLE_BINDINGS, name), (ROLES, name), *accounts]


def account_selector(addon: str) -> str:
    """Return the labels of the ServiceAccounts of one add-on, or of all add-ons when the name is empty."""
    named = f"{Label.TOKEN_ADDON}={addon}" if addon else Label.TOKEN_ADDON
    return f"{named},{Label.TOKEN_INFRASTRUCTURE}=true"


def is_account_present(reader: Reader, addon: Addon, subject: AddonSubject) -> bool:
    """Whether the ServiceAccount of a subject exists and was made for this add-on."""
    account = reader.get(SERVICE_ACCOUNTS, ObjectKey(addon.cluster, account_name(subject)))
    return account is not None and is_made_for(addon)(account)


def is_labeled_for(addon: str) -> Callable[[Object], bool]:
    """Return the test whether an object is marked as made for an add-on of this name, whichever it was."""

    def test(obj: Object) -> bool:
        labels = labels_of(obj)
        return labels.get(Label.TOKEN_ADDON) == addon and labels.get(Label.TOKEN_INFRASTRUCTURE) == "true"

    return test


def is_made_for(addon: Addon) -> Callable[[Object], bool]:
    """Return the test whether an object was made for this add-on: labelled, and owned by its UID.

    Managers of OCM name no owner. What they made is this add-on's when it is younger than the add-on:
    tokens of a fleet that changes its hub's controllers go on to work.
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
