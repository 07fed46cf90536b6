"""Holds the agents' right to create Secrets to those of their accounts, which RBAC cannot say."""

from __future__ import annotations

from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import (
    MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)

POLICY_NAME = "managed-serviceaccount-secrets.watchword.dev"

_USERS = (
    f"'system:serviceaccount:' + request.namespace + ':{ADDON_NAME}-agent'",
    f"'system:serviceaccount:' + request.namespace + ':' + request.namespace + '-{ADDON_NAME}-agent'",
)
_AGENTS = (
    f"request.userInfo.groups.exists(group, group.startsWith('system:open-cluster-management:cluster:')"
    f" && group.endsWith(':addon:{ADDON_NAME}')) || request.userInfo.username in [{', '.join(_USERS)}]"
)
_VERSIONS = ", ".join(f"'{kind.api_version}'" for kind in ACCOUNT_KINDS)
_OWNERS = "object.metadata.ownerReferences"
_OWNED = (
    f"has({_OWNERS}) && {_OWNERS}.size() > 0 && {_OWNERS}.all(owner, owner.kind == '{MANAGED_SERVICE_ACCOUNTS.kind}'"
    f" && owner.name == object.metadata.name && owner.apiVersion in [{_VERSIONS}])"
)
_VALIDATIONS = {
    "object.type == 'Opaque'": "the agent writes Secrets of type Opaque only",
    f"has(object.metadata.labels) && '{Label.MANAGED_ACCOUNT}' in object.metadata.labels": (
        f"the agent writes Secrets with the label {Label.MANAGED_ACCOUNT} only"
    ),
    _OWNED: "the agent writes Secrets only that a ManagedServiceAccount of the same name owns",
    "!has(object.data) || object.data.all(name, name in ['ca.crt', 'token'])": (
        "the agent writes ca.crt and token only"
    ),
}


def policy_manifests() -> tuple[Manifest, Manifest]:
    key = ObjectKey.cluster(POLICY_NAME)
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [SECRETS.plural],
    }
    policy = VALIDATING_ADMISSION_POLICIES.manifest(
        key,
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "agents", "expression": _AGENTS}],
            "validations": [
                {"expression": expression, "message": message, "reason": "Forbidden"}
                for expression, message in _VALIDATIONS.items()
            ],
        },
    )
    binding = VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(
        key, spec={"policyName": POLICY_NAME, "validationActions": ["Deny"]}
    )
    return (VALIDATING_ADMISSION_POLICIES, policy), (VALIDATING_ADMISSION_POLICY_BINDINGS, binding)
