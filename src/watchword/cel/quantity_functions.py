"""Quantities of Kubernetes in rules: `quantity("1.5Gi").isGreaterThan(quantity("1Gi"))`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from watchword.api.quantity import parse_quantity
from watchword.cel.functions import CelError, Function, no_overload


class Quantity(Struct, frozen=True):
    """An exact amount."""

    amount: Fraction


def _quantity(text: Any) -> Quantity:
    amount = parse_quantity(text) if type(text) is str else no_overload()
    if amount is None:
        raise CelError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return Quantity(amount)


def _is_quantity(text: Any) -> bool:
    return parse_quantity(text) is not None if type(text) is str else no_overload()


def _amount(value: Any) -> Fraction:
    return value.amount if type(value) is Quantity else no_overload()


def _amount_or_int(value: Any) -> Fraction:
    return Fraction(value) if type(value) is int else _amount(value)


def _sign(amount: Fraction) -> int:
    return (amount > 0) - (amount < 0)


def _as_integer(value: Any) -> int:
    amount = _amount(value)
    if amount.denominator != 1 or abs(amount) >= 2**63:
        raise CelError("cannot convert value to integer")
    return int(amount)


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("quantity", 1): _quantity,
    ("isQuantity", 1): _is_quantity,
    ("sign", 1): lambda value: _sign(_amount(value)),  # documented as a method, served as a function
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    ("isInteger", 1): lambda value: _amount(value).denominator == 1,
    ("asInteger", 1): _as_integer,
    ("asApproximateFloat", 1): lambda value: float(_amount(value)),
    ("add", 2): lambda one, other: Quantity(_amount(one) + _amount_or_int(other)),
    ("sub", 2): lambda one, other: Quantity(_amount(one) - _amount_or_int(other)),
    ("isGreaterThan", 2): lambda one, other: _amount(one) > _amount(other),
    ("isLessThan", 2): lambda one, other: _amount(one) < _amount(other),
    ("compareTo", 2): lambda one, other: _sign(_amount(one) - _amount(other)),
}
