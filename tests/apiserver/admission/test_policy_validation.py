"""What a ValidatingAdmissionPolicy and its binding must look like to be stored, and what the server adds."""

from __future__ import annotations

import pytest
from tests.apiserver.admission.test_policies import FALSE, a_rule

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from watchword.kube.errors import ApiStatusError, Invalid
from watchword.testing.plane import Plane


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"matchConstraints": None}, "spec.matchConstraints", id="no constraints"),
        pytest.param({"matchConstraints": {}}, "spec.matchConstraints.resourceRules", id="no rules"),
        pytest.param({"validations": []}, "spec.validations", id="no validations"),
        pytest.param({"failurePolicy": "Maybe"}, "spec.failurePolicy", id="unknown failure policy"),
        pytest.param({"validations": [{**FALSE, "reason": "Odd"}]}, "spec.validations[0].reason", id="unknown reason"),
        pytest.param({"validations": [{"expression": "("}]}, "spec.validations[0].expression", id="no CEL"),
        pytest.param({"validations": [{"expression": "x"}]}, "spec.validations[0].expression", id="unknown variable"),
        pytest.param(
            {"validations": [{**FALSE, "messageExpression": "authorizer.path('/').check('get').reason()"}]},
            "spec.validations[0].messageExpression",
            id="the authorizer in a message",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "variables.x"}]},
            "spec.matchConditions[0].expression",
            id="a variable in a condition",
        ),
        pytest.param(
            {"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]},
            "spec.variables[0].expression",
            id="a variable that comes later",
        ),
    ],
)
async def test_invalid_policy_is_not_stored(plane: Plane, spec: Object, field: str) -> None:
    match = {"resourceRules": [a_rule("configmaps")]}
    whole = {"matchConstraints": match, "validations": [{"expression": "true"}], **spec}
    policy = VALIDATING_ADMISSION_POLICIES.manifest(ObjectKey.cluster(plane.unique("policy")), spec=whole)

    with pytest.raises(ApiStatusError) as refusal:
        await plane.client().create(VALIDATING_ADMISSION_POLICIES, policy)

    assert refusal.value.code == 422
    assert field in [cause["field"] for cause in refusal.value.status["details"]["causes"]]


@pytest.mark.parametrize("actions", [[], ["Deny", "Warn"], ["Refuse"]])
async def test_invalid_binding_is_not_stored(plane: Plane, actions: list[str]) -> None:
    key = ObjectKey.cluster(plane.unique("policy"))
    spec = {"policyName": "p", "validationActions": actions}

    with pytest.raises(Invalid):
        await plane.client().create(
            VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(key, spec=spec)
        )


async def test_server_completes_a_policy(plane: Plane) -> None:
    key = ObjectKey.cluster(plane.unique("policy"))
    rule = a_rule("configmaps", "CREATE")
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}

    stored = await plane.client().create(
        VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES.manifest(key, spec=spec)
    )
    await plane.client().delete(VALIDATING_ADMISSION_POLICIES, key)

    assert stored["spec"]["failurePolicy"] == "Fail"
    assert stored["spec"]["matchConstraints"] == {
        "resourceRules": [{**rule, "scope": "*"}],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    }
