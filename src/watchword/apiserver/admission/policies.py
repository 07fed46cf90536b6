"""Evaluates ValidatingAdmissionPolicies: the last step of validating admission, as in kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct, convert, field

from watchword.api.meta import Object, ObjectKey, mapping_at
from watchword.api.resources import NAMESPACES, VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from watchword.apiserver.access.rbac import Authorizer
from watchword.apiserver.admission.policy_matching import (
    AdmissionAttributes,
    MatchResources,
    find_matching_request,
    read_attributes,
)
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import ApiError, Operation, Registry

if TYPE_CHECKING:
    from watchword.apiserver.admission.policy_evaluation import Denial, Policy

_GROUP = VALIDATING_ADMISSION_POLICIES.group
_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_FAILURES = "validation.policy.admission.k8s.io/validation_failure"


class Binding(Struct, frozen=True):
    """Where a policy applies, and what a refusal leads to."""

    name: str
    policy: str
    actions: tuple[str, ...]
    match: MatchResources

    @classmethod
    def read(cls, obj: Object) -> Binding:
        """Read a binding; one that cannot be read denies whatever its policy refuses."""
        name, spec = obj["metadata"]["name"], mapping_at(obj, "spec")
        policy = str(spec.get("policyName") or "")
        try:
            actions = convert(spec.get("validationActions") or (), tuple[str, ...])
            return cls(name, policy, actions, MatchResources.read(spec.get("matchResources") or {}))
        except Exception:  # noqa: BLE001 - whatever is wrong with it, its policy stays in force
            return cls(name, policy, ("Deny",), MatchResources.read({}))


class AdmissionPolicies(Struct):
    """A validating admission step; as a service it follows the stored policies."""

    registry: Registry
    authorizer: Authorizer
    _policies: dict[str, Policy] = field(default_factory=dict)
    _bindings: dict[str, Binding] = field(default_factory=dict)
    _bound: list[tuple[Policy, list[Binding]]] = field(default_factory=list)
    _stops: list[Callable[[], None]] = field(default_factory=list)

    async def start(self) -> None:
        self._stops = [
            self.registry.subscribe(VALIDATING_ADMISSION_POLICIES, self._policy_changed),
            self.registry.subscribe(VALIDATING_ADMISSION_POLICY_BINDINGS, self._binding_changed),
        ]

    async def stop(self) -> None:
        while self._stops:
            self._stops.pop()()

    def _policy_changed(self, change: str, obj: Object) -> None:
        from watchword.apiserver.admission.policy_evaluation import Policy, compile_policy

        name = obj["metadata"]["name"]
        self._policies.pop(name, None)
        if change != "DELETED":
            try:
                self._policies[name] = compile_policy(obj)
            except Exception as error:  # noqa: BLE001 - a policy that cannot be read refuses
                self._policies[name] = Policy(name, MatchResources.read({}), fails_closed=True, problem=repr(error))
        self._bind()

    def _binding_changed(self, change: str, obj: Object) -> None:
        binding = Binding.read(obj)
        self._bindings.pop(binding.name, None)
        if change != "DELETED":
            self._bindings[binding.name] = binding
        self._bind()

    def _bind(self) -> None:
        bound: dict[str, list[Binding]] = {}
        for _, binding in sorted(self._bindings.items()):
            if binding.policy in self._policies:
                bound.setdefault(binding.policy, []).append(binding)
        self._bound = [(self._policies[name], bindings) for name, bindings in sorted(bound.items())]

    async def __call__(self, operation: Operation) -> None:
        """Raise the refusal of the first policy whose binding denies; add warnings and audit annotations of others."""
        if operation.kind.resource.group == _GROUP:
            return  # a policy could otherwise lock out those who must mend it
        request, refusal = None, None
        for policy, bindings in self._bound:
            from watchword.apiserver.admission.policy_evaluation import request_variables

            request = request or read_attributes(operation)
            found = find_matching_request(self.registry, policy.match, operation, request)
            if found is None:
                continue
            matches = (find_matching_request(self.registry, each.match, operation, request) for each in bindings)
            matching = [binding for binding, match in zip(bindings, matches, strict=True) if match is not None]
            if not matching:
                continue
            variables = request_variables(operation, found, self._namespace_of(found), self.authorizer)
            for binding, denial in product(matching, policy.decide(variables)):  # without parameters, the same for all
                if "Deny" in binding.actions:
                    refusal = refusal or _refusal(operation, policy, binding, denial)
                _report(operation, policy, binding, denial)
        if refusal is not None:
            raise refusal

    def _namespace_of(self, request: AdmissionAttributes) -> Object | None:
        if not request.namespace or request.is_namespace:
            return None
        found = self.registry.get(NAMESPACES, ObjectKey.cluster(request.namespace))
        if found is None:
            raise errors.not_found(NAMESPACES, request.namespace)
        return found


def _refusal(operation: Operation, policy: Policy, binding: Binding, denial: Denial) -> ApiError:
    message = (
        f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request: {denial.message}"
    )
    refusal = errors.forbidden(operation.kind.resource, operation.key.name, message)
    details = {**(refusal.details or {}), "causes": [{"message": message}]}
    return ApiError(_CODES.get(denial.reason, 422), denial.reason, refusal.message, details)


def _report(operation: Operation, policy: Policy, binding: Binding, denial: Denial) -> None:
    """Add the warning and the audit annotation of a refusal, once: a write may be attempted several times."""
    if "Warn" in binding.actions:
        about = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
        text = f"Validation failed for {about}: {denial.message}"
        if text not in operation.warnings:
            operation.warnings.append(text)
    if "Audit" in binding.actions:
        row = {
            "message": denial.message,
            "policy": policy.name,
            "binding": binding.name,
            "expressionIndex": denial.index,
            "validationActions": list(binding.actions),
        }
        earlier = orjson.loads(operation.annotations.get(_FAILURES, "[]"))
        if row not in earlier:
            operation.annotations[_FAILURES] = orjson.dumps([*earlier, row]).decode()
