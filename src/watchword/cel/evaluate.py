"""Compiles the tree of an expression into a function of its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from watchword.cel.functions import (
    FUNCTIONS,
    METHODS,
    OPERATORS,
    TYPE_NAMES,
    CelError,
    no_overload,
    select,
)
from watchword.cel.syntax import (
    Call,
    CelSyntaxError,
    Identifier,
    ListLiteral,
    Literal,
    Node,
    Select,
    parse,
)

MAX_STEPS = 200_000  # of loops in one evaluation: a rule runs on every write

Scope = dict[str, Any]
Program = Callable[[Scope], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and the variables that it uses."""

    program: Program
    referenced_variables: frozenset[str]

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value; raises CelError when the expression has none."""
        try:
            return self.program({**variables, "": [0]})
        except RecursionError as error:
            raise CelError("expression nested too deeply") from error


@dataclass(frozen=True, eq=False)
class Environment:
    """The variables that expressions may use, and the functions besides the language's own."""

    variables: frozenset[str]
    functions: Mapping[tuple[str, int], Callable[..., Any]] = field(default_factory=dict)  # by name and arity


SCHEMA_RULES = Environment(frozenset(("self", "oldSelf")))


@lru_cache(maxsize=1024)
def compile_expression(text: str, environment: Environment = SCHEMA_RULES) -> Expression:
    """Compile an expression; raises CelSyntaxError for what is not supported."""
    referenced_variables: set[str] = set()
    program = _Compiler(referenced_variables, environment).compile(parse(text), environment.variables)
    return Expression(program, frozenset(referenced_variables))


@dataclass(frozen=True, slots=True)
class _Compiler:
    referenced_variables: set[str]
    environment: Environment

    def compile(self, node: Node, known: frozenset[str]) -> Program:
        match node:
            case Literal(value):
                return lambda _: value
            case Identifier(name):
                return self._name(name, known)
            case Select(target, field):
                program, key = self.compile(target, known), _unescape(field)
                return lambda scope: select(program(scope), key)
            case ListLiteral(items):
                programs = [self.compile(item, known) for item in items]
                return lambda scope: [program(scope) for program in programs]
            case Call():
                return self._call(node, known)

    def _name(self, name: str, known: frozenset[str]) -> Program:
        if name in known:
            self.referenced_variables.add(name)
            return lambda scope: scope[name]
        if name in TYPE_NAMES:
            return lambda _: name
        raise CelSyntaxError(f"undeclared reference to {name!r}")

    def _call(self, call: Call, known: frozenset[str]) -> Program:
        if call.method and call.function in _MACROS and len(call.arguments) == 3:
            return self._macro(call, known)
        if call.function == "has" and not call.method and len(call.arguments) == 1:
            return self._has(call.arguments[0], known)
        programs = [self.compile(argument, known) for argument in call.arguments]
        if not call.method and call.function in _LAZY:
            return _LAZY[call.function](*programs)
        table = METHODS if call.method else {**FUNCTIONS, **self.environment.functions}
        function = OPERATORS.get(call.function) or table.get((call.function, len(programs)))
        if function is None:
            raise CelSyntaxError(f"undeclared reference to {call.function!r}")
        if len(programs) == 2:
            one, other = programs
            return lambda scope: function(one(scope), other(scope))
        return lambda scope: function(*(program(scope) for program in programs))

    def _has(self, node: Node, known: frozenset[str]) -> Program:
        if not isinstance(node, Select):
            raise CelSyntaxError("invalid argument to has() macro")
        program, key = self.compile(node.target, known), _unescape(node.field)

        def has(scope: Scope) -> bool:
            target = program(scope)
            return key in target if type(target) is dict else no_overload()

        return has

    def _macro(self, call: Call, known: frozenset[str]) -> Program:
        target, variable, body = call.arguments
        if not isinstance(variable, Identifier):
            raise CelSyntaxError("argument must be a simple name")
        source, inner = self.compile(target, known), self.compile(body, known | {variable.name})
        combine, name = _MACROS[call.function], variable.name

        def run(scope: Scope) -> Any:
            container = source(scope)
            if type(container) is not list and type(container) is not dict:
                no_overload()
            scope[""][0] += len(container)
            if scope[""][0] > MAX_STEPS:
                raise CelError("operation cancelled: actual cost limit exceeded")
            items = list(container)
            return combine(items, lambda item: inner({**scope, name: item}))

        return run


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


_MACROS: dict[str, Callable[[list[Any], Test], Any]] = {
    "all": lambda items, test: not _any_item_is(items, test, False),
    "exists": lambda items, test: _any_item_is(items, test, True),
    "exists_one": lambda items, test: sum(_truth(test(item)) for item in items) == 1,
    "filter": lambda items, test: [item for item in items if _truth(test(item))],
    "map": lambda items, test: [test(item) for item in items],
}


def _short_circuit(verdict: bool) -> Callable[[Program, Program], Program]:  # noqa: FBT001 - the verdict is the data here
    """Build `||` (True decides) or `&&` (False decides): an error on one side yields to a decision on the other."""

    def build(one: Program, other: Program) -> Program:
        def run(scope: Scope) -> bool:
            try:
                if _truth(one(scope)) is verdict:
                    return verdict
            except CelError:
                if _truth(other(scope)) is verdict:
                    return verdict
                raise
            return _truth(other(scope))

        return run

    return build


def _ternary(test: Program, yes: Program, no: Program) -> Program:
    return lambda scope: yes(scope) if _truth(test(scope)) else no(scope)


_LAZY: dict[str, Callable[..., Program]] = {
    "||": _short_circuit(verdict=True),
    "&&": _short_circuit(verdict=False),
    "?:": _ternary,
    "!": lambda program: lambda scope: not _truth(program(scope)),
}


def _unescape(field: str) -> str:
    """Return the property that an escaped identifier stands for: `__dot__` and the like, `__namespace__`."""
    if not field.startswith("__") and "__" not in field:
        return field
    for name, mark in (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__")):
        field = field.replace(name, mark)
    if field.startswith("__") and field.endswith("__") and field[2:-2] in _RESERVED:
        return field[2:-2]
    return field


_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
