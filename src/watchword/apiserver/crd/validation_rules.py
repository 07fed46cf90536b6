"""What x-kubernetes-validations may say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import orjson

from watchword.apiserver.crd.definition import SCHEMAS_REMEMBERED, objects, text
from watchword.apiserver.field_errors import invalid, not_supported, required
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.nodes import Node, below, properties_of
from watchword.cel.evaluate import compile_expression
from watchword.cel.syntax import CelSyntaxError

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check_validations(node: Node, path: str, uncorrelated: str) -> Iterator[FieldError]:
    """Yield what is wrong with the rules of one node.

    `uncorrelated` names the ancestor below which there is no oldSelf, if any.
    """
    for index, rule in enumerate(objects(node, "x-kubernetes-validations")):
        place = f"{path}.x-kubernetes-validations[{index}]"
        yield from _message_errors(rule, place)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            yield not_supported(f"{place}.reason", reason, _REASONS)
        if uncorrelated and _uses_old_self(text(rule, "rule")):
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield invalid(f"{place}.rule", rule.get("rule"), detail)


def _message_errors(rule: Node, place: str) -> Iterator[FieldError]:
    expression, message = text(rule, "rule").strip(), text(rule, "message")
    if not expression:
        yield required(f"{place}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{place}.message", message, "must be non-empty if specified")
    elif _has_break(message.strip()):
        yield invalid(f"{place}.message", message, "must not contain line breaks")
    elif _has_break(expression) and not message:
        yield required(f"{place}.message", "message must be specified if rule contains line breaks")
    if text(rule, "messageExpression") and not text(rule, "messageExpression").strip():
        yield required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def expression_errors(document: bytes, path: str) -> tuple[tuple[str, FieldError], ...]:
    """Return the expressions of a document that cannot be compiled, each with its error."""
    return tuple(_check_expressions(orjson.loads(document), path))


def _check_expressions(openapi: Node, path: str) -> Iterator[tuple[str, FieldError]]:
    for index, rule in enumerate(objects(openapi, "x-kubernetes-validations")):
        for key in ("rule", "messageExpression"):
            expression = text(rule, key)
            problem = _compilation_problem(expression)
            if problem:
                yield expression, invalid(f"{path}.x-kubernetes-validations[{index}].{key}", expression, problem)
    for name, node in properties_of(openapi).items():
        yield from _check_expressions(node, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        inner = below(openapi, key)
        if inner is not None:
            yield from _check_expressions(inner, f"{path}.{key}")


def expressions_of(openapi: Node) -> Iterator[str]:
    """Yield every expression of a document."""
    for rule in objects(openapi, "x-kubernetes-validations"):
        yield from (text(rule, "rule"), text(rule, "messageExpression"))
    for node in (*properties_of(openapi).values(), below(openapi, "items"), below(openapi, "additionalProperties")):
        if node is not None:
            yield from expressions_of(node)


def _compilation_problem(expression: str) -> str:
    if not expression.strip():
        return ""  # reported as missing
    try:
        compile_expression(expression)
    except CelSyntaxError as error:
        return f"compilation failed: {error}"
    return ""


def _has_break(words: str) -> bool:
    return "\n" in words or "\r" in words


def _uses_old_self(expression: str) -> bool:
    try:
        return "oldSelf" in compile_expression(expression).referenced_variables
    except CelSyntaxError:
        return False  # refused elsewhere
