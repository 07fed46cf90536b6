"""Validation of ValidatingAdmissionPolicies and their bindings."""

from collections.abc import Collection, Iterator, Sequence

from watchword.api.meta import Object
from watchword.apiserver.admission.policy_evaluation import CONDITIONS, PolicyExpression, environment_of
from watchword.apiserver.kinds.metadata import dns_subdomain, qualified_name, selector_errors
from watchword.apiserver.serving.field_errors import invalid, not_supported, required, too_many
from watchword.apiserver.serving.model import FieldError, Operation
from watchword.cel.evaluate import Environment

REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MOST_CONDITIONS = 64
_ALTERNATIVES = "validations or auditAnnotations must contain at least one item"
_BOTH_ACTIONS = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def validate_policy(operation: Operation) -> list[FieldError]:
    """Return the errors of a policy's spec; an expression that cannot be compiled is one."""
    spec = (operation.new or {}).get("spec") or {}
    return [*_match_constraint_errors(spec), *_expression_errors(spec), *_validation_errors(spec)]


def validate_policy_binding(operation: Operation) -> list[FieldError]:
    spec = (operation.new or {}).get("spec") or {}
    name = spec.get("policyName") or ""
    found = [invalid("spec.policyName", name, complaint) for complaint in (dns_subdomain(name) if name else ())]
    if not name:
        found.append(required("spec.policyName"))
    actions, path = spec.get("validationActions") or [], "spec.validationActions"
    if not actions:
        found.append(required(path))
    found += [not_supported(f"{path}[{index}]", action, ACTIONS) for index, action in _unknown(actions, ACTIONS)]
    if {"Deny", "Warn"} <= set(actions):
        found.append(invalid(path, actions, _BOTH_ACTIONS))
    return [*found, *_match_errors(spec.get("matchResources") or {}, "spec.matchResources")]


def _match_constraint_errors(spec: Object) -> Iterator[FieldError]:
    path, match, failure = "spec.matchConstraints", spec.get("matchConstraints"), spec.get("failurePolicy")
    if failure not in (None, "Fail", "Ignore"):
        yield not_supported("spec.failurePolicy", failure, ("Fail", "Ignore"))
    if match is None:
        yield required(path)
    else:
        yield from _match_errors(match, path)
        if not match.get("resourceRules"):
            yield required(f"{path}.resourceRules")


def _match_errors(match: Object, path: str) -> Iterator[FieldError]:
    if match.get("matchPolicy") not in (None, "Exact", "Equivalent"):
        yield not_supported(f"{path}.matchPolicy", match["matchPolicy"], ("Equivalent", "Exact"))
    for selector in ("namespaceSelector", "objectSelector"):
        yield from selector_errors(match.get(selector) or {}, f"{path}.{selector}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, row in enumerate(match.get(field) or ()):
            yield from _rule_errors(row, f"{path}.{field}[{index}]")


def _rule_errors(row: Object, path: str) -> Iterator[FieldError]:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        values = row.get(field) or []
        if not values:
            yield required(f"{path}.{field}")
        if "*" in values and len(values) > 1 and field != "resources":
            yield invalid(f"{path}.{field}", values, "if '*' is present, must not specify other values")
    for index, operation in _unknown(row.get("operations") or [], OPERATIONS):
        yield not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
    if row.get("scope") not in (None, "*", "Cluster", "Namespaced"):
        yield not_supported(f"{path}.scope", row["scope"], ("*", "Cluster", "Namespaced"))


def _expression_errors(spec: Object) -> Iterator[FieldError]:
    """Check matchConditions and variables; a variable may use those before it."""
    conditions = spec.get("matchConditions") or []
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many("spec.matchConditions", len(conditions), _MOST_CONDITIONS)
    for index, row in enumerate(conditions):
        path, name = f"spec.matchConditions[{index}]", row.get("name") or ""
        complaints = qualified_name(name) if name else []
        yield from (invalid(f"{path}.name", name, complaint) for complaint in complaints)
        yield from _compile_errors(row.get("expression") or "", f"{path}.expression", CONDITIONS)
    known: list[str] = []
    for index, row in enumerate(spec.get("variables") or ()):
        path, name = f"spec.variables[{index}]", row.get("name") or ""
        if not (name.isascii() and name.isidentifier()):
            yield invalid(f"{path}.name", name, "name is not a valid CEL identifier")
        yield from _compile_errors(row.get("expression") or "", f"{path}.expression", environment_of(frozenset(known)))
        known.append(name)


def _validation_errors(spec: Object) -> Iterator[FieldError]:
    names = frozenset(row.get("name") or "" for row in spec.get("variables") or ())
    whole, messages = environment_of(names), environment_of(names, authorizer=False)
    validations = spec.get("validations") or []
    if not validations and not spec.get("auditAnnotations"):
        yield required("spec.validations", _ALTERNATIVES)
        yield required("spec.auditAnnotations", _ALTERNATIVES)
    for index, row in enumerate(validations):
        path, message = f"spec.validations[{index}]", row.get("message") or ""
        yield from _compile_errors(row.get("expression") or "", f"{path}.expression", whole)
        if row.get("messageExpression"):
            yield from _compile_errors(row["messageExpression"], f"{path}.messageExpression", messages)
        if "\n" in message.strip():
            yield invalid(f"{path}.message", message, "message must not contain line breaks")
        elif "\n" in (row.get("expression") or "").strip() and not message.strip():
            detail = "message must be specified if expression contains line breaks"
            yield required(f"{path}.message", detail)
        if row.get("reason") not in (None, "", *REASONS):
            yield not_supported(f"{path}.reason", row["reason"], REASONS)


def _compile_errors(text: str, path: str, environment: Environment) -> Iterator[FieldError]:
    if not text.strip():
        yield required(path, f"{path.rpartition('.')[2]} is not specified")
        return
    problem = PolicyExpression.compile(text, environment).problem
    if problem:
        yield invalid(path, text, f"compilation failed: {problem}")


def _unknown(values: Sequence[str], supported: Collection[str]) -> Iterator[tuple[int, str]]:
    return ((index, value) for index, value in enumerate(values) if value not in supported)
