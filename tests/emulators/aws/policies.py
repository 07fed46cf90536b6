"""Evaluates IAM policies: who is trusted, what is allowed, under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, field


class PolicyRequest(Struct, frozen=True):
    """One attempt: what is to be done to what, by which principal, in which context."""

    action: str
    resource: str = "*"
    principals: Mapping[str, frozenset[str]] = field(default_factory=dict)  # AWS or Federated → the caller's names
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # condition key → values


def is_allowed(policies: list[Any], request: PolicyRequest) -> bool:
    """Whether a statement of the policies allows the request, and none denies it."""
    effects = [
        statement.get("Effect")
        for policy in policies
        for statement in statements(policy)
        if _applies(statement, request)
    ]
    return "Allow" in effects and "Deny" not in effects


def is_trusted(policy: Any, request: PolicyRequest) -> bool:
    """Whether a trust policy lets a principal make the request; a statement without a principal trusts nothing."""
    named = [statement for statement in statements(policy) if _names(statement.get("Principal"), request.principals)]
    return is_allowed([{"Statement": named}], request)


def statements(policy: Any) -> list[Any]:
    """Return the statements of a policy, of which IAM accepts one or a list."""
    found = policy.get("Statement", [])
    return found if isinstance(found, list) else [found]


def aws_principals(policy: Any) -> Iterator[str]:
    """Return the AWS principals that a trust policy names."""
    for statement in statements(policy):
        principal = statement.get("Principal")
        if isinstance(principal, Mapping):
            yield from _listed(principal.get("AWS"))


def _names(principal: Any, callers: Mapping[str, frozenset[str]]) -> bool:
    if principal == "*":
        return True
    if not isinstance(principal, Mapping):
        return False
    return any(name == "*" or name in callers.get(kind, ()) for kind in principal for name in _listed(principal[kind]))


def _applies(statement: Any, request: PolicyRequest) -> bool:
    actions = any(
        fnmatchcase(request.action.lower(), _pattern(each).lower()) for each in _listed(statement.get("Action"))
    )
    resources = any(fnmatchcase(request.resource, _pattern(each)) for each in _listed(statement.get("Resource", "*")))
    return actions and resources and _conditions_hold(statement.get("Condition") or {}, request.context)


def _conditions_hold(conditions: Mapping[str, Any], context: Mapping[str, tuple[str, ...]]) -> bool:
    return all(
        _holds(operator, context.get(key, ()), _listed(wanted))
        for operator, rows in conditions.items()
        for key, wanted in rows.items()
    )


def _holds(operator: str, found: tuple[str, ...], wanted: list[str]) -> bool:
    """Compare one key; an absent key and an operator that is not known here do not match."""
    compare = _OPERATORS.get(operator)
    return compare is not None and any(compare(value, each) for value in found for each in wanted)


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringLike": lambda value, wanted: fnmatchcase(value, _pattern(wanted)),
    "ArnEquals": lambda value, wanted: fnmatchcase(value, _pattern(wanted)),
    "ArnLike": lambda value, wanted: fnmatchcase(value, _pattern(wanted)),
}


def _pattern(text: str) -> str:
    return text.replace("[", "[[]")  # IAM knows * and ? alone


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
