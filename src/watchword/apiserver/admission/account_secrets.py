"""Refuses Secrets of agents that no managed service account of theirs owns, which RBAC alone cannot express."""

from __future__ import annotations

from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.meta import Object, labels_of
from watchword.api.names import Label, addon_service_account, addon_service_account_short, service_account_user
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, SECRETS
from watchword.apiserver import errors
from watchword.apiserver.model import Operation, User

_GROUP_PREFIX, _GROUP_SUFFIX = "system:open-cluster-management:cluster:", f":addon:{ADDON_NAME}"
_VERSIONS = frozenset(kind.api_version for kind in ACCOUNT_KINDS)


async def hold_to_own_accounts(operation: Operation) -> None:
    """Refuse a Secret that an agent writes and that no account of the same name owns: a validating step."""
    if operation.kind.resource.plural != SECRETS.plural or operation.kind.resource.group or operation.new is None:
        return
    if not _is_agent(operation.user, operation.key.namespace):
        return
    objection = validate_account_secret(operation.new)
    if objection:
        raise errors.forbidden(SECRETS, operation.key.name, objection)


def validate_account_secret(secret: Object) -> str:
    """Say why an agent may not write a Secret; empty when it may."""
    if secret.get("type") != "Opaque":
        return "the agent writes Secrets of type Opaque only"
    if Label.MANAGED_ACCOUNT not in labels_of(secret):
        return f"the agent writes Secrets with the label {Label.MANAGED_ACCOUNT} only"
    owners = secret["metadata"].get("ownerReferences") or []
    own = [
        owner.get("kind") == MANAGED_SERVICE_ACCOUNTS.kind
        and owner.get("name") == secret["metadata"]["name"]
        and owner.get("apiVersion") in _VERSIONS
        for owner in owners
    ]
    if not own or not all(own):
        return "the agent writes Secrets only that a ManagedServiceAccount of the same name owns"
    return "" if set(secret.get("data") or {}) <= {"ca.crt", "token"} else "the agent writes ca.crt and token only"


def _is_agent(user: User, namespace: str) -> bool:
    names = (addon_service_account(namespace, ADDON_NAME), addon_service_account_short(ADDON_NAME))
    return user.name in {service_account_user(namespace, name) for name in names} or any(
        group.startswith(_GROUP_PREFIX) and group.endswith(_GROUP_SUFFIX) for group in user.groups
    )
