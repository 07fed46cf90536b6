"""Parses an expression into a tree; only the forms that validation rules use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from msgspec import Struct

T = TypeVar("T")

MAX_LENGTH = 16_384
MAX_DEPTH = 64  # of parentheses and other brackets
MAX_CHAIN = 100  # of operators, fields and calls in a row

_TOKEN = re.compile(
    r"\s*(?:(?P<comment>//[^\n]*)"
    r"|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>0x[0-9a-fA-F]+u?|\d+u?)"
    r"|(?P<raw>[rR](?:\"\"\"(?:[^\"]|\"(?!\"\"))*\"\"\"|'''(?:[^']|'(?!''))*'''|'[^'\n]*'|\"[^\"\n]*\"))"
    r"|(?P<text>\"\"\"(?:\\.|[^\"\\]|\"(?!\"\"))*\"\"\"|'''(?:\\.|[^'\\]|'(?!''))*'''"
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}]))",
    re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {c: c for c in "\\?\"'`"}
_LONGEST_NUMBER = 20  # digits
_TOO_LARGE = 2**63 + 1  # 2**63 itself may follow a minus
_LEVELS = (("||",), ("&&",), ("==", "!=", "<=", ">=", "<", ">", "in"), ("+", "-"), ("*", "/", "%"))
_CONSTANTS = {"true": True, "false": False, "null": None}


class CelSyntaxError(Exception):
    """The expression is not supported by this evaluator."""


class Literal(Struct, frozen=True):
    """A constant."""

    value: Any


class Identifier(Struct, frozen=True):
    """A variable or a type."""

    name: str


class Select(Struct, frozen=True):
    """A field selection."""

    target: Node
    field: str


class Call(Struct, frozen=True):
    """An operator, function, method or macro; a method has its target as first argument.

    A field or item that may be absent, `a.?b` or `a[?b]`, is the operator `[?]`.
    """

    function: str
    arguments: tuple[Node, ...]
    method: bool = False


class ListLiteral(Struct, frozen=True):
    """A list that is written out, such as `[a, ?b]`."""

    items: tuple[Entry, ...]


class Entry(Struct, frozen=True):
    """One item of a list or map that is written out; an optional one is left out when it is absent."""

    value: Node
    key: Node | None = None  # None in lists
    optional: bool = False


class MapLiteral(Struct, frozen=True):
    """A map written out."""

    entries: tuple[Entry, ...]


Node = Literal | Identifier | Select | Call | ListLiteral | MapLiteral


def parse(expression: str) -> Node:
    """Return the tree of an expression; raises CelSyntaxError."""
    if len(expression) > MAX_LENGTH:
        raise CelSyntaxError("expression too long")
    parser = _Parser(_tokens(expression))
    node = parser.ternary()
    parser.expect("")
    return node


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    text, position = expression.rstrip(), 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise CelSyntaxError(f"unexpected {text[position : position + 10]!r}")
        kind = found.lastgroup or ""
        if kind != "comment":
            tokens.append((kind, found.group(kind)))
        position = found.end()
    return [*tokens, ("end", "")]


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    def take(self, *marks: str) -> str | None:
        kind, text = self.tokens[self.position]
        if text in marks and kind in {"mark", "name", "end"}:
            self.position += 1
            return text
        return None

    def expect(self, mark: str) -> None:
        if self.take(mark) is None:
            self.fail()

    def fail(self) -> NoReturn:
        raise CelSyntaxError(f"unexpected {self.tokens[self.position][1] or 'end'!r}")

    def ternary(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CelSyntaxError("expression nested too deeply")
        node = self.binary(0)
        if self.take("?"):
            yes = self.binary(0)
            self.expect(":")
            node = Call("?:", (node, yes, self.ternary()))
        self.depth -= 1
        return node

    def binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        nodes = [self.binary(level + 1)]
        chain = 0
        while operator := self.take(*_LEVELS[level]):
            operand = self.binary(level + 1)
            if operator in ("||", "&&"):  # any number of them is one call
                nodes.append(operand)
                continue
            chain = self.longer(chain)
            nodes = [Call(operator, (*nodes, operand))]
        return nodes[0] if len(nodes) == 1 else Call(_LEVELS[level][0], tuple(nodes))

    def longer(self, chain: int) -> int:
        if chain >= MAX_CHAIN:
            raise CelSyntaxError("expression nested too deeply")
        return chain + 1

    def unary(self) -> Node:
        operators = []
        while operator := self.take("!", "-"):
            operators.append(operator)
        node = self.member()
        if len(operators) > MAX_CHAIN:
            raise CelSyntaxError("expression nested too deeply")
        for operator in reversed(operators):
            node = Call("neg" if operator == "-" else "!", (node,))
        return node

    def member(self) -> Node:
        node = self.primary()
        chain = 0
        while mark := self.take(".", "["):
            chain = self.longer(chain)
            optional = self.take("?") is not None
            if mark == "[":
                node = Call("[?]" if optional else "[]", (node, self.ternary()))
                self.expect("]")
                continue
            name = self.identifier()
            if optional:
                node = Call("[?]", (node, Literal(unescape(name))))
            elif self.take("("):
                node = Call(name, (node, *self.sequence(")", self.ternary)), method=True)
            else:
                node = Select(node, name)
        return node

    def identifier(self) -> str:
        kind, text = self.tokens[self.position]
        if kind != "name":
            self.fail()
        self.position += 1
        return text

    def sequence(self, end: str, read: Callable[[], T]) -> tuple[T, ...]:
        found: list[T] = []
        while not self.take(end):
            found.append(read())
            if not self.take(","):
                self.expect(end)
                break
        return tuple(found)

    def item(self) -> Entry:
        optional = self.take("?") is not None
        return Entry(self.ternary(), optional=optional)

    def entry(self) -> Entry:
        optional = self.take("?") is not None
        key = self.ternary()
        self.expect(":")
        return Entry(self.ternary(), key, optional)

    def primary(self) -> Node:
        if self.take("("):
            node = self.ternary()
            self.expect(")")
            return node
        if bracket := self.take("[", "{"):
            is_list = bracket == "["
            return ListLiteral(self.sequence("]", self.item)) if is_list else MapLiteral(self.sequence("}", self.entry))
        kind, text = self.tokens[self.position]
        self.position += 1
        if kind == "name":
            if text in _CONSTANTS:
                return Literal(_CONSTANTS[text])
            return Call(text, self.sequence(")", self.ternary)) if self.take("(") else Identifier(text)
        if kind in {"int", "float", "text", "raw"}:
            return Literal(_constant(kind, text))
        self.position -= 1
        return self.fail()


def _constant(kind: str, text: str) -> Any:
    if kind == "raw":
        return _unquoted(text[1:])
    if kind == "text":
        return _ESCAPE.sub(_unescaped, _unquoted(text))
    if kind == "float":
        return float(text)
    digits = text.rstrip("u")
    number = int(digits, 0 if digits.startswith("0x") else 10) if len(digits) <= _LONGEST_NUMBER else _TOO_LARGE
    if number >= _TOO_LARGE:
        raise CelSyntaxError("invalid int literal")
    return number


def _unquoted(text: str) -> str:
    marks = 3 if text[:3] in ('"""', "'''") else 1
    return text[marks:-marks]


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code in _ESCAPES:
        return _ESCAPES[code]
    try:
        if len(code) > 1:
            return chr(int(code, 8) if code[0] in "0123" else int(code[1:], 16))
    except (ValueError, OverflowError) as error:
        raise CelSyntaxError(f"no such character: {found[0]}") from error
    raise CelSyntaxError(f"no such escape: {found[0]}")


def unescape(field: str) -> str:
    """Return the property that an escaped identifier stands for: `__dot__` and the like, `__namespace__`."""
    if "__" not in field:
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
