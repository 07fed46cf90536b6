"""Evaluates the CEL expressions of condition rules, which few works have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watchword.api.meta import Object
from watchword.cel.evaluate import Environment, compile_expression
from watchword.cel.functions import CelError
from watchword.cel.syntax import CelSyntaxError
from watchword.work.condition_rules import ExpressionResult

MAX_EXPRESSIONS = 32


def _has_conditions(status: Any) -> bool:
    return type(status) is dict and type(status.get("conditions")) is list and bool(status["conditions"])


_FUNCTIONS = {("hasConditions", 1): _has_conditions}
_CONDITION = Environment(frozenset({"object"}), _FUNCTIONS)
_MESSAGE = Environment(frozenset({"object", "result"}), _FUNCTIONS)


def evaluate_expressions(obj: Object, expressions: Iterable[Any]) -> ExpressionResult:
    """Say whether all expressions hold; the first that does not decides."""
    texts = [str(text) for text in expressions]
    if not texts:
        return ExpressionResult(holds=False, trouble="the rule has no expression")
    if len(texts) > MAX_EXPRESSIONS:
        return ExpressionResult(holds=False, trouble=f"the rule has more than {MAX_EXPRESSIONS} expressions")
    for place, text in enumerate(texts):
        try:
            value = compile_expression(text, _CONDITION).evaluate({"object": obj})
        except (CelError, CelSyntaxError) as trouble:
            return ExpressionResult(holds=False, trouble=f"expression {place} cannot be evaluated: {trouble}")
        if type(value) is not bool:
            return ExpressionResult(holds=False, trouble=f"expression {place} is neither true nor false")
        if not value:
            return ExpressionResult(holds=False)
    return ExpressionResult(holds=True)


def compute_message(expression: str, variables: Mapping[str, Any], fallback: str) -> str:
    """Return the text that an expression computes; the fallback where it computes none."""
    try:
        said = compile_expression(expression, _MESSAGE).evaluate(variables)
    except (CelError, CelSyntaxError) as trouble:
        return f"{fallback} (its message cannot be computed: {trouble})"
    return said if isinstance(said, str) and said else fallback
