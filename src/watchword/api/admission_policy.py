"""Builds a ValidatingAdmissionPolicy and its binding, which refuse what any of its expressions does not allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.resources import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS

WRITES = ("CREATE", "UPDATE")


class PolicyName(StrEnum):
    """The admission policies of a hub, with what each is about."""

    ACCEPTANCE = "managedcluster-acceptance.watchword.dev"
    SET_BINDING = "managedclustersetbinding.watchword.dev"
    EXECUTOR = "manifestwork-executor.watchword.dev"
    REQUESTS = "certificate-requests.watchword.dev"
    AGENT_TOKENS = "agent-tokens.watchword.dev"
    ACCOUNT_SECRETS = "managed-serviceaccount-secrets.watchword.dev"


def bound_policy(
    name: PolicyName,
    group_resource: tuple[str, str],
    validations: Mapping[str, str],
    *,
    operations: Sequence[str] = WRITES,
    only_for: str = "",
) -> tuple[Manifest, Manifest]:
    """Return the policy and its binding; `validations` has the message of each expression that must hold.

    `only_for` is an expression about the requests that the policy is for.
    """
    group, resource = group_resource
    versions = ["*" if group else "v1"]
    rule = {"apiGroups": [group], "apiVersions": versions, "operations": list(operations), "resources": [resource]}
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for expression, message in validations.items()
        ],
    }
    if only_for:
        spec["matchConditions"] = [{"name": "requests", "expression": only_for}]
    key = ObjectKey.cluster(name.value)
    binding = {"policyName": name.value, "validationActions": ["Deny"]}
    return (
        (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES.manifest(key, spec=spec)),
        (VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(key, spec=binding)),
    )


def text_literal(text: str) -> str:
    """Return a text as CEL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
