"""Compiles the tree of an expression into a function of its variables."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from watchword.cel import syntax
from watchword.cel.functions import (
    NONE,
    OPERATORS,
    TYPE_NAMES,
    CelError,
    Function,
    OptionalValue,
    bounded,
    no_overload,
    select,
    select_optional,
)
from watchword.cel.library import FUNCTIONS, METHODS

Scope = dict[str, Any]
Program = Callable[[Scope], Any]
Test = Callable[[Any], Any]


def _truth(value: Any) -> bool:
    return value if type(value) is bool else no_overload()


def _any_is(verdict: bool, items: Iterable[Any], test: Test) -> bool:  # noqa: FBT001 - the verdict is the data here
    """Search for one item that decides; an error counts only when none does."""
    failure: CelError | None = None
    for item in items:
        try:
            if _truth(test(item)) is verdict:
                return True
        except CelError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def _flat_map(items: list[Any], compute: Test) -> OptionalValue:
    found = compute(items[0]) if items else NONE
    return found if type(found) is OptionalValue else no_overload()


OPTIONAL_MACROS = frozenset(("optMap", "optFlatMap"))
MACROS: dict[tuple[str, int], Callable[..., Any]] = {
    ("all", 3): lambda items, test: not _any_is(False, items, test),
    ("exists", 3): lambda items, test: _any_is(True, items, test),
    ("exists_one", 3): lambda items, test: sum(_truth(test(item)) for item in items) == 1,
    ("filter", 3): lambda items, test: [item for item in items if _truth(test(item))],
    ("map", 3): lambda items, compute: [compute(item) for item in items],
    ("map", 4): lambda items, test, compute: [compute(item) for item in items if _truth(test(item))],
    ("optMap", 3): lambda items, compute: OptionalValue((compute(items[0]),)) if items else NONE,
    ("optFlatMap", 3): _flat_map,
}


def _short_circuit(verdict: bool, programs: tuple[Program, ...]) -> Program:  # noqa: FBT001 - as above
    """Build `||` (True decides) or `&&` (False decides); the search above would cost a call more for each operand."""

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


def _ternary(test: Program, yes: Program, no: Program) -> Program:
    return lambda scope: yes(scope) if _truth(test(scope)) else no(scope)


LAZY: dict[str, Callable[..., Program]] = {
    "||": lambda *programs: _short_circuit(True, programs),
    "&&": lambda *programs: _short_circuit(False, programs),
    "?:": _ternary,
    "!": lambda program: lambda scope: not _truth(program(scope)),
}


MAX_STEPS = 200_000  # of loops in one evaluation: a rule runs on every write
SCANNING: dict[str, Callable[[Iterable[int]], int]] = {
    **dict.fromkeys(("+", "in", "==", "!=", "indexOf", "lastIndexOf", "isSorted", "sum", "min", "max"), sum),
    **dict.fromkeys(("contains", "equivalent", "intersects"), math.prod),  # each item with each
}
"""Functions that look at every item of a list or text, and how many steps arguments of these lengths take."""
_SIZED = frozenset((list, str))


class Expression(Struct, frozen=True):
    """A compiled expression and the variables that it uses."""

    program: Program
    referenced_variables: frozenset[str]

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value; raises CelError when the expression has none."""
        try:
            return self.program({**variables, "": [0]})
        except RecursionError as error:
            raise CelError("expression nested too deeply") from error


class Environment(Struct, frozen=True, eq=False):
    """The variables that expressions may use, and the functions and methods besides the language's own.

    A variable with a qualified name (`a.b`) is given as a function without arguments, called when it is needed.
    """

    variables: frozenset[str]
    functions: Mapping[tuple[str, int], Callable[..., Any]] = field(default_factory=dict)  # by name and arity
    methods: Mapping[tuple[str, int], Callable[..., Any]] = field(default_factory=dict)  # the target counts


SCHEMA_RULES = Environment(frozenset(("self", "oldSelf")))


@lru_cache(maxsize=1024)
def compile_expression(text: str, environment: Environment = SCHEMA_RULES) -> Expression:
    """Compile an expression; raises CelSyntaxError for what is not supported."""
    referenced_variables: set[str] = set()
    try:
        program = _Compiler(referenced_variables, environment).compile(syntax.parse(text), environment.variables)
    except RecursionError as error:
        raise syntax.CelSyntaxError("expression nested too deeply") from error
    return Expression(program, frozenset(referenced_variables))


class _Compiler(Struct, frozen=True):
    referenced_variables: set[str]
    environment: Environment

    def compile(self, node: syntax.Node, known: frozenset[str]) -> Program:
        match node:
            case syntax.Literal(value):
                program: Program = lambda _: value  # noqa: E731 - one of many forms
            case syntax.Identifier(name):
                program = self._name(name, known)
            case syntax.Select(syntax.Identifier(name), field) if f"{name}.{field}" in known:
                self.referenced_variables.add(f"{name}.{field}")
                program = lambda scope: scope[f"{name}.{field}"]()  # noqa: E731 - one of many forms
            case syntax.Select(target, field):
                inner, key = self.compile(target, known), syntax.unescape(field)
                program = lambda scope: _field(inner(scope), key)  # noqa: E731 - one of many forms
            case syntax.ListLiteral(items):
                program = self._list(items, known)
            case syntax.MapLiteral(entries):
                program = self._map(entries, known)
            case syntax.Call():
                program = self._call(node, known)
        return program

    def _name(self, name: str, known: frozenset[str]) -> Program:
        if name in known:
            self.referenced_variables.add(name)
            return lambda scope: scope[name]
        if name in TYPE_NAMES:
            return lambda _: name
        raise syntax.CelSyntaxError(f"undeclared reference to {name!r}")

    def _list(self, items: tuple[syntax.Entry, ...], known: frozenset[str]) -> Program:
        programs = [(self.compile(item.value, known), item.optional) for item in items]

        def build(scope: Scope) -> list[Any]:
            return [item for program, optional in programs for item in _present(program(scope), optional=optional)]

        return build

    def _map(self, entries: tuple[syntax.Entry, ...], known: frozenset[str]) -> Program:
        programs = [
            (self.compile(entry.key, known), self.compile(entry.value, known), entry.optional)
            for entry in entries
            if entry.key is not None
        ]

        def build(scope: Scope) -> dict[Any, Any]:
            found: dict[Any, Any] = {}
            for key_of, value_of, optional in programs:
                key = key_of(scope)
                if type(key) not in (str, int, bool):
                    no_overload()
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                for value in _present(value_of(scope), optional=optional):
                    found[key] = value
            return found

        return build

    def _call(self, call: syntax.Call, known: frozenset[str]) -> Program:
        if call.method and (call.function, len(call.arguments)) in MACROS:
            return self._macro(call, known)
        if call.function == "has" and not call.method and len(call.arguments) == 1:
            return self._has(call.arguments[0], known)
        function, arguments = self._resolve(call, known)
        programs = [self.compile(argument, known) for argument in arguments]
        if not call.method and call.function in LAZY:
            return LAZY[call.function](*programs)
        if function is None:
            raise syntax.CelSyntaxError(f"undeclared reference to {call.function!r}")
        if call.function in SCANNING:
            return _counted(function, programs, SCANNING[call.function])
        if len(programs) == 2:
            one, other = programs
            return lambda scope: function(one(scope), other(scope))
        return lambda scope: function(*(program(scope) for program in programs))

    def _resolve(self, call: syntax.Call, known: frozenset[str]) -> tuple[Function | None, tuple[syntax.Node, ...]]:
        """Return the function that a call means and its arguments: of `sets.contains(a, b)` the last two."""
        name, arguments = call.function, call.arguments
        if not call.method:
            found = OPERATORS.get(name) or self.environment.functions.get((name, len(arguments)))
            return found or FUNCTIONS.get((name, len(arguments))), arguments
        first = arguments[0]
        if isinstance(first, syntax.Identifier) and first.name not in known:
            found = FUNCTIONS.get((f"{first.name}.{name}", len(arguments) - 1))
            if found is not None:
                return found, arguments[1:]
        place = (name, len(arguments))
        return self.environment.methods.get(place) or METHODS.get(place), arguments

    def _has(self, node: syntax.Node, known: frozenset[str]) -> Program:
        if isinstance(node, syntax.Call) and node.function == "[?]":
            optional = self.compile(node, known)
            return lambda scope: bool(optional(scope).held)
        if not isinstance(node, syntax.Select):
            raise syntax.CelSyntaxError("invalid argument to has() macro")
        program, key = self.compile(node.target, known), syntax.unescape(node.field)

        def has(scope: Scope) -> bool:
            target = program(scope)
            if type(target) is OptionalValue:
                return bool(select_optional(target, key).held)
            return key in target if type(target) is dict else no_overload()

        return has

    def _macro(self, call: syntax.Call, known: frozenset[str]) -> Program:
        target, variable, *bodies = call.arguments
        if not isinstance(variable, syntax.Identifier):
            raise syntax.CelSyntaxError("argument must be a simple name")
        source, name = self.compile(target, known), variable.name
        inner = [self.compile(body, known | {name}) for body in bodies]
        combine = MACROS[call.function, len(call.arguments)]

        def run(scope: Scope) -> Any:
            items = _iterated(source(scope), scope, optional=call.function in OPTIONAL_MACROS)
            tests = [lambda item, program=program: program({**scope, name: item}) for program in inner]
            return combine(items, *tests)

        return run


def _iterated(container: Any, scope: Scope, *, optional: bool) -> list[Any]:
    if optional:
        return list(container.held) if type(container) is OptionalValue else no_overload()
    if type(container) is not list and type(container) is not dict:
        no_overload()
    _count(scope, len(container))
    return list(container)


def _count(scope: Scope, steps: int) -> None:
    scope[""][0] += steps
    bounded(scope[""][0], MAX_STEPS)


def _counted(function: Function, programs: list[Program], combine: Callable[[Iterable[int]], int]) -> Program:
    def run(scope: Scope) -> Any:
        arguments = [program(scope) for program in programs]
        # As in Kubernetes a character costs a tenth of an item, and an item a fifth of what it costs in a macro.
        lengths = [len(each) if type(each) is list else len(each) // 10 for each in arguments if type(each) in _SIZED]
        if lengths:
            _count(scope, combine(lengths) // 5)
        return function(*arguments)

    return run


def _field(target: Any, key: str) -> Any:
    return select_optional(target, key) if type(target) is OptionalValue else select(target, key)


def _present(value: Any, *, optional: bool) -> tuple[Any, ...]:
    if not optional:
        return (value,)
    return value.held if type(value) is OptionalValue else no_overload()
