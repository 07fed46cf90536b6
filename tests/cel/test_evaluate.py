"""CEL expressions: evaluated as the language defines, or refused when compiled."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.cel.evaluate import compile_expression
from watchword.cel.functions import CelError
from watchword.cel.syntax import CelSyntaxError

SELF = {"n": 3, "f": 1.5, "s": "abc", "l": [1, 2, 3], "m": {"a": 1}, "t": True, "x-y": 1, "namespace": "ns"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self.n + 2 * 3", 9),
        ("(self.n + 2) * 3", 15),
        ("-self.n - -1", -2),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("self.f / 0.5", 3.0),
        ("'a' + \"b\"", "ab"),
        ("[1] + [2]", [1, 2]),
        ("self.n == 3.0", True),
        ("self.n != 3", False),
        ("self.n >= 3 && self.n < 4", True),
        ("!self.t || self.n > 2", True),
        ("self.t ? 'yes' : 'no'", "yes"),
        ("self.n in self.l", True),
        ("'a' in self.m", True),
        ("4 in self.l", False),
        ("has(self.n) && !has(self.q)", True),
        ("size(self.l) == self.l.size()", True),
        ("self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b')", True),
        ("self.s.matches('^[a-c]+$')", True),
        ("self.l[1]", 2),
        ("self.m['a']", 1),
        ("self.l.all(i, i > 0)", True),
        ("self.l.exists(i, i > 2)", True),
        ("self.l.exists_one(i, i > 2)", True),
        ("self.l.filter(i, i > 1)", [2, 3]),
        ("self.l.map(i, i * 2)", [2, 4, 6]),
        ("self.m.all(k, k == 'a')", True),
        ("self.l.all(i, self.l.exists(j, i == j))", True),
        ("self.x__dash__y == 1 && self.__namespace__ == 'ns'", True),
        ("int('5') + int(1.9)", 6),
        ("string(self.n)", "3"),
        ("type(self.s) == string", True),
        ("true // with a remark", True),
        ("self.missing == 1 || true", True),
        ("self.missing == 1 && false", False),
        ("self.l.exists(i, i == 1 || i.nope)", True),
    ],
)
def test_evaluate(expression: str, expected: Any) -> None:
    assert compile_expression(expression).evaluate({"self": SELF, "oldSelf": SELF}) == expected


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("self.q", "no such key: q"),
        ("self.l[9]", "index out of bounds: 9"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("1 + 'a'", "no such overload"),
        ("self.n && true", "no such overload"),
        ("self.s < 1", "no such overload"),
        ("self.s.matches('(')", "error parsing regexp"),
        ("self.missing == 1 || false", "no such key: missing"),
        ("int('x')", "type conversion error"),
        ("int('1_0')", "type conversion error"),
        ("int(' 1')", "type conversion error"),
        ("double('\u0661')", "type conversion error"),
    ],
)
def test_evaluation_error_is_reported(expression: str, told: str) -> None:
    with pytest.raises(CelError, match=told):
        compile_expression(expression).evaluate({"self": SELF})


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "self +",
        "nobody",
        "self.frobnicate()",
        "frobnicate(1)",
        "has(self)",
        "'open",
        "(" * 100,
        "self.all(1, true)",
    ],
)
def test_what_is_not_understood_is_refused_when_compiled(expression: str) -> None:
    with pytest.raises(CelSyntaxError):
        compile_expression(expression)


def test_loops_within_loops_come_to_an_end() -> None:
    nested = "self.all(a, self.all(b, self.all(c, true)))"

    with pytest.raises(CelError, match="cost limit"):
        compile_expression(nested).evaluate({"self": list(range(200))})


PIECES = [
    "self",
    ".",
    "n",
    "l",
    "(",
    ")",
    "[",
    "]",
    "1",
    "'a'",
    "==",
    "&&",
    "!",
    "all",
    "x",
    ",",
    "?",
    ":",
    "-",
    "/",
    "0",
]


@settings(max_examples=80)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join) | st.text(max_size=20))
def test_no_expression_raises_anything_else(expression: str) -> None:
    with contextlib.suppress(CelSyntaxError, CelError):
        compile_expression(expression).evaluate({"self": SELF, "oldSelf": None})
