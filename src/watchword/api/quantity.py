"""Quantities in their canonical form: `0.5` is `500m`, `1024Mi` is `1Gi`."""

import re
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?", re.ASCII)
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
UNITS = {
    **{unit: Fraction(scale) for unit, scale in _BINARY.items()},
    **{unit: Fraction(10) ** power for unit, power in _DECIMAL.items()},
}
"""The value of one of each unit."""

_LARGEST = 2**63 - 1
_LONGEST = 128  # digits beyond this change nothing and cost time

WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def parse_quantity(text: str) -> Fraction | None:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, part, suffix = match[1], match[2], match[3] or "", match[4] or ""
    value = Fraction(int(whole + part or "0"), 10 ** len(part))
    value *= _scale(suffix)
    return -value if sign == "-" else value


def canonical_quantity(text: str) -> str | None:
    """Write a quantity as Kubernetes stores it; None when the text is none."""
    value = parse_quantity(text)
    if value is None:
        return None
    suffix = quantity_suffix(text)
    value = _rounded_up(value)
    if suffix in _BINARY and abs(value) >= 1024:
        return _binary(value)
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return _decimal(value, exponents=True)
    return _decimal(value, exponents=False)


def quantity_suffix(text: str) -> str:
    return re.sub(r"^[+-]?[\d.]*", "", text)


def _scale(suffix: str) -> Fraction:
    if suffix in UNITS:
        return UNITS[suffix]
    # A huge exponent must not cost memory: beyond this the value is capped anyway.
    return Fraction(10) ** max(-40, min(40, int(suffix[1:])))


def _rounded_up(value: Fraction) -> Fraction:
    nanos = abs(value) * 10**9
    ceiling = -((-nanos.numerator) // nanos.denominator)
    magnitude = min(Fraction(ceiling, 10**9), Fraction(_LARGEST))
    return -magnitude if value < 0 else magnitude


def _binary(value: Fraction) -> str:
    number = -((-abs(value).numerator) // abs(value).denominator)
    suffix = ""
    for each in _BINARY:
        if number % 1024:
            break
        number, suffix = number // 1024, each
    return f"{'-' if value < 0 else ''}{number}{suffix}"


def _decimal(value: Fraction, *, exponents: bool) -> str:
    if value == 0:
        return "0"
    power = 18
    while (abs(value) / Fraction(10) ** power).denominator != 1:
        power -= 3
    number = abs(value) / Fraction(10) ** power
    sign = "-" if value < 0 else ""
    if exponents:
        return f"{sign}{number}" + (f"e{power}" if power else "")
    return sign + str(number) + next(suffix for suffix, each in _DECIMAL.items() if each == power)
