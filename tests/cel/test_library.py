"""What Kubernetes adds to CEL, judged by two control planes: every row is a rule that holds."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import ObjectKey, Resource
from watchword.cel.evaluate import compile_expression
from watchword.cel.functions import CelError
from watchword.cel.syntax import CelSyntaxError
from watchword.runtime.manifests import establish_crds
from watchword.testing.plane import Plane

SPEC = {"s": "a/b/c", "n": 3, "l": [1, 2, 3], "m": {"a": "1"}, "words": ["x", "y"]}
HOLDS = [
    # Literals
    'self.s == """a/b/c"""',
    r"r'\d' == '\\d'",
    r"'\x41\u0042\103' == 'ABC'",
    "'''it's''' == \"it's\"",
    "{'a': 1, 'b': 2}['b'] == 2",
    "{}.size() == 0",
    "size([1, 2, ?optional.none()]) == 2",
    "'k' in {?'k': optional.of(1)} && !('k' in {?'k': optional.none()})",
    # Texts
    "self.s.split('/') == ['a', 'b', 'c'] && self.s.split('/', 2) == ['a', 'b/c'] && self.s.split('/', 0) == []",
    "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc']",
    "self.s.substring(2) == 'b/c' && self.s.substring(0, 1) == 'a'",
    "self.s.replace('/', '-') == 'a-b-c' && self.s.replace('/', '-', 1) == 'a-b/c'",
    "self.words.join() == 'xy' && self.words.join(', ') == 'x, y'",
    "self.s.indexOf('b') == 2 && self.s.indexOf('/', 2) == 3 && self.s.indexOf('z') == -1 && self.s.indexOf('') == 0",
    "self.s.lastIndexOf('/') == 3 && self.s.lastIndexOf('/', 2) == 1 && self.s.lastIndexOf('z') == -1",
    "self.s.charAt(0) == 'a' && self.s.charAt(5) == ''",
    "'%s has %d of %.2f, 100%%'.format(['x', 3, 1.5]) == 'x has 3 of 1.50, 100%'",
    "self.s.find('[b-z]') == 'b' && self.s.find('q') == ''",
    "self.s.findAll('[a-z]') == ['a', 'b', 'c'] && self.s.findAll('[a-z]', 2) == ['a', 'b']",
    "bool('true') && uint('3') == 3u && double('1.5') == 1.5",
    # Lists
    "self.l.isSorted() && !self.l.map(i, -i).isSorted()",
    "self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3",
    "self.l.indexOf(2) == 1 && self.l.lastIndexOf(9) == -1",
    "self.l.map(i, i > 1, i * 10) == [20, 30]",
    "sets.contains([1, 2], [2]) && sets.equivalent([1, 2, 2], [2, 1]) && !sets.intersects([1], [2])",
    # Optional values
    "self.?missing.orValue('x') == 'x' && self.?s.orValue('x') == 'a/b/c'",
    "!self.m[?'b'].hasValue() && self.m[?'a'].value() == '1' && self.l[?9].orValue(0) == 0",
    "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, x).hasValue()",
    "optional.of(1).optFlatMap(x, optional.none()).or(optional.of(3)).value() == 3",
    "!optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue('a').hasValue()",
    # Times
    "duration('1h30m') > duration('89m') && duration('1h30m').getMinutes() == 90 && duration('1.5s').getSeconds() == 1",
    "timestamp('2030-01-02T03:04:05Z').getFullYear() == 2030 && timestamp('2030-01-02T03:04:05Z').getMonth() == 0",
    "timestamp('2030-01-02T03:04:05Z').getDate() == 2 && timestamp('2030-01-02T03:04:05Z').getDayOfMonth() == 1",
    "timestamp('2030-01-02T03:04:05Z').getDayOfWeek() == 3 && timestamp('2030-01-02T03:04:05Z').getDayOfYear() == 1",
    "timestamp('2030-01-02T03:04:05Z').getHours('+02:00') == 5",
    "timestamp('2030-01-02T00:00:00Z') - timestamp('2030-01-01T00:00:00Z') == duration('24h')",
    "timestamp('2030-01-01T00:00:00Z') + duration('1h') < timestamp('2030-01-01T02:00:00Z')",
    "string(timestamp('2030-01-02T03:04:05Z')) == '2030-01-02T03:04:05Z' && string(duration('90s')) == '90s'",
    # Quantities
    "quantity('1.5Gi').isGreaterThan(quantity('1Gi')) && quantity('50m').isLessThan(quantity('1'))",
    "quantity('1k').compareTo(quantity('1000')) == 0 && quantity('1k').asInteger() == 1000",
    "isQuantity('1Gi') && !isQuantity('much') && !quantity('0.5').isInteger() && sign(quantity('-1')) == -1",
    "quantity('1').add(quantity('2')).compareTo(quantity('3')) == 0 && quantity('5').sub(2).asInteger() == 3",
    "quantity('0.5').asApproximateFloat() == 0.5",
]  # fmt: skip
FAILS = [
    ("self.s.substring(9)", "index out of range"),
    ("[].min()", "empty list"),
    ("duration('x')", "invalid duration"),
    ("timestamp('x')", "invalid timestamp"),
    ("timestamp('9999-12-31T23:59:59Z').getHours('+01:00')", "overflow"),
    ("timestamp('9999-12-31T23:59:59Z').getHours('Asia/Tokyo')", "overflow"),
    ("timestamp('2030-01-02T03:04:05Z').getHours('99:00')", "unknown time zone"),
    ("quantity('x')", "quantities must match"),
    ("quantity('0.5').asInteger()", "cannot convert"),
    ("optional.none().value()", "dereference"),
    ("self.m[[1]]", "no such overload"),
    ("{'a': 1, 'a': 2}", "already exists"),
    ("1.split('a')", "no such overload"),
    ("'aaaa'.replace('', 'a'.replace('a', self.long)).replace('', self.long)", "cost limit"),
    ("self.many.map(i, self.long).join()", "cost limit"),
    ("[[self.long + self.long].map(a, a + a + a)[0]].map(b, b + b)[0]", "cost limit"),
    ("[[self.many].map(a, a + a + a + a + a + a)[0]].map(b, self.many.map(c, b + b))[0].map(d, d)", "cost limit"),
    ("self.many.all(i, i in self.many && i in self.many)", "cost limit"),
    ("self.many.all(i, self.many == self.many)", "cost limit"),
    ("sets.contains(self.many + self.many, self.many)", "cost limit"),
    ("self.s.find('(a+)+(b+)+')", "simplify"),
]


@pytest.mark.parametrize("expression", HOLDS)
def test_rule_holds(expression: str) -> None:
    assert compile_expression(expression).evaluate({"self": SPEC}) is True


@pytest.mark.parametrize(("expression", "told"), FAILS)
def test_expression_without_a_value_says_why(expression: str, told: str) -> None:
    context = {**SPEC, "long": "x" * 1_000_000, "many": list(range(1000))}

    with pytest.raises(CelError, match=told):
        compile_expression(expression).evaluate({"self": context})


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("1" + "+1" * 2000, id="sum"),
        pytest.param("!" * 2000 + "true", id="negations"),
        pytest.param("self" + ".a" * 2000, id="fields"),
        pytest.param("[" * 50 + "1" + "+1" * 99 + "]" * 50, id="brackets"),
        pytest.param("99999999999999999999", id="number"),
        pytest.param(r"'\q'", id="escape"),
        pytest.param(r"'\UFFFFFFFF'", id="character"),
    ],
)
def test_expression_beyond_the_limits_is_refused_when_compiled(expression: str) -> None:
    try:
        compile_expression(expression).evaluate({"self": {}})
    except (CelSyntaxError, CelError):
        return
    assert expression.startswith("[[")  # deep, but not too deep


def test_many_alternatives_are_one_decision() -> None:
    expression = " || ".join(f"self == {number}" for number in range(1000))

    assert compile_expression(expression).evaluate({"self": 999}) is True


THINGS = Resource("cel.example.org", "v1", "things", "Thing")


def definition(rules: list[str]) -> dict[str, Any]:
    spec = {
        "type": "object",
        "properties": {
            "s": {"type": "string", "maxLength": 9},
            "n": {"type": "integer"},
            "l": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
            "m": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string", "maxLength": 9}},
            "words": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9}},
            "missing": {"type": "string", "maxLength": 9},
        },
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.cel.example.org"},
        "spec": {
            "group": "cel.example.org",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version],
        },
    }


async def test_rules_hold_on_every_control_plane(plane: Plane) -> None:
    client, namespace = plane.client(), await plane.namespace()
    await establish_crds(client, [definition(HOLDS)], manager="test")

    made = await client.create(THINGS, THINGS.manifest(ObjectKey(namespace, "a"), spec=SPEC))

    assert made["spec"] == SPEC
