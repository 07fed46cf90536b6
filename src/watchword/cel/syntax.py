"""Parses an expression into a tree; only the forms that validation rules use."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_LENGTH = 16_384
MAX_DEPTH = 64

_TOKEN = re.compile(
    r"\s*(?:(?P<comment>//[^\n]*)"
    r"|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>0x[0-9a-fA-F]+u?|\d+u?)"
    r"|(?P<text>[rR]?(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"))"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]]))",
    re.ASCII,
)
_LEVELS = (("||",), ("&&",), ("==", "!=", "<=", ">=", "<", ">", "in"), ("+", "-"), ("*", "/", "%"))
_CONSTANTS = {"true": True, "false": False, "null": None}


class CelSyntaxError(Exception):
    """The expression is not supported by this evaluator."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Identifier:
    """A variable or a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field selection."""

    target: Node
    field: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, function, method or macro; a method has its target as first argument."""

    function: str
    arguments: tuple[Node, ...]
    method: bool = False


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """A list literal."""

    items: tuple[Node, ...]


Node = Literal | Identifier | Select | Call | ListLiteral


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
        node = self.binary(level + 1)
        while operator := self.take(*_LEVELS[level]):
            node = Call(operator, (node, self.binary(level + 1)))
        return node

    def unary(self) -> Node:
        operators = []
        while operator := self.take("!", "-"):
            operators.append(operator)
        node = self.member()
        for operator in reversed(operators):
            node = Call("neg" if operator == "-" else "!", (node,))
        return node

    def member(self) -> Node:
        node = self.primary()
        while mark := self.take(".", "["):
            if mark == "[":
                node = Call("[]", (node, self.ternary()))
                self.expect("]")
                continue
            name = self.identifier()
            node = Call(name, (node, *self.arguments(")")), method=True) if self.take("(") else Select(node, name)
        return node

    def identifier(self) -> str:
        kind, text = self.tokens[self.position]
        if kind != "name":
            self.fail()
        self.position += 1
        return text

    def arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.take(end):
            found.append(self.ternary())
            if not self.take(","):
                self.expect(end)
                break
        return tuple(found)

    def primary(self) -> Node:
        if self.take("("):
            node = self.ternary()
            self.expect(")")
            return node
        if self.take("["):
            return ListLiteral(self.arguments("]"))
        kind, text = self.tokens[self.position]
        self.position += 1
        if kind == "name":
            if text in _CONSTANTS:
                return Literal(_CONSTANTS[text])
            return Call(text, self.arguments(")")) if self.take("(") else Identifier(text)
        if kind in {"int", "float", "text"}:
            return Literal(_constant(kind, text))
        self.position -= 1
        return self.fail()


def _constant(kind: str, text: str) -> Any:
    try:
        if kind == "text":
            return literal_eval(text)
        return float(text) if kind == "float" else int(text.rstrip("u"), 0 if text.startswith("0x") else 10)
    except (ValueError, SyntaxError) as error:
        raise CelSyntaxError(f"unexpected {text!r}") from error
