"""Operators and macros that decide themselves which of their parts are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watchword.cel.functions import CelError, no_overload
from watchword.cel.optional_values import NONE, OptionalValue

Scope = dict[str, Any]
Program = Callable[[Scope], Any]
Test = Callable[[Any], Any]


def _truth(value: Any) -> bool:
    return value if type(value) is bool else no_overload()


def _any_item_is(items: list[Any], test: Test, verdict: bool) -> bool:  # noqa: FBT001 - the verdict is the data here
    """Search for one item that decides; errors count only when none does."""
    failure: CelError | None = None
    for item in items:
        try:
            if _truth(test(item)) is verdict:
                return True
        except CelError as error:
            failure = error
    if failure is not None:
        raise failure
    return False


def _flat_map(items: list[Any], compute: Test) -> OptionalValue:
    found = compute(items[0]) if items else NONE
    return found if type(found) is OptionalValue else no_overload()


OPTIONAL_MACROS = frozenset(("optMap", "optFlatMap"))
MACROS: dict[tuple[str, int], Callable[..., Any]] = {
    ("all", 3): lambda items, test: not _any_item_is(items, test, False),
    ("exists", 3): lambda items, test: _any_item_is(items, test, True),
    ("exists_one", 3): lambda items, test: sum(_truth(test(item)) for item in items) == 1,
    ("filter", 3): lambda items, test: [item for item in items if _truth(test(item))],
    ("map", 3): lambda items, compute: [compute(item) for item in items],
    ("map", 4): lambda items, test, compute: [compute(item) for item in items if _truth(test(item))],
    ("optMap", 3): lambda items, compute: OptionalValue((compute(items[0]),)) if items else NONE,
    ("optFlatMap", 3): _flat_map,
}


def _short_circuit(verdict: bool) -> Callable[..., Program]:  # noqa: FBT001 - the verdict is the data here
    """Build `||` (True decides) or `&&` (False decides): an error in one place yields to a decision in another."""

    def build(*programs: Program) -> Program:
        def run(scope: Scope) -> bool:
            failure: CelError | None = None
            for program in programs:
                try:
                    if _truth(program(scope)) is verdict:
                        return verdict
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not verdict

        return run

    return build


def _ternary(test: Program, yes: Program, no: Program) -> Program:
    return lambda scope: yes(scope) if _truth(test(scope)) else no(scope)


LAZY: dict[str, Callable[..., Program]] = {
    "||": _short_circuit(verdict=True),
    "&&": _short_circuit(verdict=False),
    "?:": _ternary,
    "!": lambda program: lambda scope: not _truth(program(scope)),
}
