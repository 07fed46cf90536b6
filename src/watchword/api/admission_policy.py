"""Builds a ValidatingAdmissionPolicy and its binding, and tells whether they are stored as they were written."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from watchword.api.meta import Manifest, Object, ObjectKey, mapping_at, rows_at
from watchword.api.resources import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS

WRITES = ("CREATE", "UPDATE")
CONSTRAINT_DEFAULTS: Mapping[str, Any] = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


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


def is_as_written(stored: Object, wanted: Object) -> bool:
    """Whether a policy or binding is stored as it was written, but for the defaults that the server adds."""
    return bool(_without_defaults(mapping_at(stored, "spec")) == wanted["spec"])


def _without_defaults(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    constraints = mapping_at(spec, "matchConstraints")
    if not constraints:  # of a binding
        return spec
    rules = [
        {name: value for name, value in rule.items() if (name, value) != ("scope", "*")}
        for rule in rows_at(constraints, "resourceRules")
    ]
    written = {name: value for name, value in constraints.items() if value != CONSTRAINT_DEFAULTS.get(name)}
    return {**spec, "matchConstraints": {**written, "resourceRules": rules}}


def text_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
