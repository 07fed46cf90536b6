"""Checks x-kubernetes-validations."""

from collections.abc import Iterator, Mapping
from typing import Any

from watchword.api.json import same_json
from watchword.apiserver.kinds.from_openapi import Node, text
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.kinds.schema_validation import ABSENT, field_path, old_field, old_items
from watchword.apiserver.serving.field_errors import duplicate, forbidden, invalid, required
from watchword.apiserver.serving.model import FieldError
from watchword.cel.evaluate import compile_expression
from watchword.cel.functions import CelError, NoSuchOverload, OptionalValue
from watchword.cel.syntax import CelSyntaxError


def check_rules(value: Any, schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    """Append what the rules at this value and below refuse; rules stored before they were refused are passed over."""
    if value is None or "rules" not in schema.contains:
        return
    for rule in schema.rules:
        errors.extend(_rule_errors(rule, value, schema, path, old))
    if type(value) is dict:
        for key, item in value.items():
            check_rules(item, schema.field(key), field_path(schema, path, key), old_field(old, schema, key), errors)
    elif type(value) is list:
        before = old_items(old, schema)
        for index, item in enumerate(value):
            check_rules(item, schema.item, f"{path}[{index}]", before(item) if before else ABSENT, errors)


def _rule_errors(rule: Node, value: Any, schema: Schema, path: str, old: Any) -> Iterator[FieldError]:
    try:
        expression = compile_expression(text(rule, "rule"))
    except CelSyntaxError:
        return
    is_transition = "oldSelf" in expression.referenced_variables
    has_past = old is not ABSENT and old is not None
    if is_transition and not has_past and not rule.get("optionalOldSelf"):
        return
    past = OptionalValue((old,) if has_past else ()) if rule.get("optionalOldSelf") else old
    variables = {"self": value, "oldSelf": past}
    rule_text = text(rule, "message").strip() or text(rule, "rule").strip()
    try:
        holds = expression.evaluate(variables)
    except CelError as error:
        yield invalid(path, schema.type, _failure(error, rule_text))
        return
    if holds is not True and (is_transition or old is ABSENT or not same_json(value, old)):
        yield _rule_error(rule, variables, schema, path)


def _failure(error: CelError, rule_text: str) -> str:
    if isinstance(error, NoSuchOverload):
        told = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {told} for rule: {rule_text}"
    return f"{error} evaluating rule: {rule_text}"


def _rule_error(rule: Node, variables: Mapping[str, Any], schema: Schema, path: str) -> FieldError:
    detail = _message(rule, variables)
    place = f"{path}{text(rule, 'fieldPath')}".lstrip(".") or "<nil>"
    reason = rule.get("reason")
    if reason == "FieldValueForbidden":
        return forbidden(place, detail)
    if reason == "FieldValueRequired":
        return required(place, detail)
    whole = schema.type in {"object", "array"}  # too large to repeat in a message
    if reason == "FieldValueDuplicate":
        return FieldError(place, reason, "Duplicate value") if whole else duplicate(place, variables["self"])
    if whole:
        return FieldError(place, "FieldValueInvalid", f"Invalid value: {detail}")
    return invalid(place, variables["self"], detail)


def _message(rule: Node, variables: Mapping[str, Any]) -> str:
    expression = text(rule, "messageExpression")
    if expression:
        try:
            computed = compile_expression(expression).evaluate(variables)
        except (CelError, CelSyntaxError):
            computed = None
        if isinstance(computed, str) and computed.strip() and "\n" not in computed:
            return computed
    return text(rule, "message").strip() or f"failed rule: {text(rule, 'rule').strip()}"
