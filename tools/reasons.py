"""Finds in the sources which reasons the program gives in conditions and Events, and fails where it cannot tell.

A reason is followed from where a condition or an Event is made, back through parameters and fields, to its texts.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args

from watchword.api.conditions import Condition
from watchword.api.resources import CORE_EVENTS, EVENTS

STATUSES = {"true": "True", "false": "False", "unknown": "Unknown"}
SEVERITIES = {"normal": "Normal", "warning": "Warning", "refusal": "Warning"}
UNREAD = (
    "watchword.api.conditions",  # defines conditions
    "watchword.apiserver.node.pod_factory",  # Events of Kubernetes itself
    "watchword.dashboard.server",  # shows conditions
    "watchword.kube.",  # knows neither conditions nor Events; a `refusal` there is of a throttle
    "watchword.registration.grpc.server.publishing",  # passes on the Events of agents
    "watchword.runtime.event_recorder",  # defines Events
)
KUBERNETES_OWN = "watchword.apiserver."  # the conditions there; Events are of our own
REASON = re.compile(r"[a-z]*([A-Z][a-z0-9]*)+")  # Open Cluster Management starts some with a small letter
LOGGER = re.compile(r"log|audit")
GAP = "…"
ADVICE = "cannot read this reason: name it as a literal or an enum member"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class UnreadableReasonError(Exception):
    """A reason that is no literal, or no CamelCase word; the message names file and line."""


@dataclass(frozen=True, slots=True, order=True)
class Said:
    """One thing that can be said; `subject` is a condition's type, empty where it is handed on as a value."""

    subject: str
    reason: str
    tone: str  # a condition's status, or an Event's type
    message: str
    module: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function, or a field of a class: the texts are where it is called."""

    callee: Callee
    name: str


@dataclass(frozen=True)
class Callee:
    """A function or a class that is given a reason."""

    module: str
    name: str  # qualified by its class
    parameters: tuple[str, ...] = field(compare=False)
    defaults: Mapping[str, ast.expr] = field(compare=False)
    is_class: bool = False


Texts = tuple[str | Parameter, ...]


class Made(NamedTuple):
    """A condition or an Event, as far as it is known in a place."""

    reason: Texts
    subject: Texts
    tone: Texts
    message: Texts


@dataclass(frozen=True)
class Place:
    """A node of a module, with the classes and functions around it."""

    module: str
    path: Path
    node: ast.expr
    scopes: tuple[ast.ClassDef | Function, ...]

    def fail(self, problem: str = ADVICE) -> UnreadableReasonError:
        return UnreadableReasonError(f"{self.path}:{self.node.lineno}: {problem}")

    @property
    def name(self) -> str:
        """The last word of what is called or named."""
        node = self.node.func if isinstance(self.node, ast.Call) else self.node
        return ast.unparse(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""

    def is_of(self, callee: Callee) -> bool:
        """Whether the function or the class is called, or a function is named without a call."""
        is_call = isinstance(self.node, ast.Call)
        found = self.value(self.node.func if isinstance(self.node, ast.Call) else self.node)
        if found is None:  # a method, or a name of a function: nothing but the name tells
            return self.module == callee.module or (is_call and not self.name.startswith("_"))
        named = [getattr(found, each, "") for each in ("__module__", "__qualname__")]
        return named == [callee.module, callee.name] and (is_call or not callee.is_class)

    def made(self, *parts: ast.expr | None) -> Made:
        """Return what is made of a reason, which must be known, and of a subject, a tone and a message."""
        reason, subject, tone, message = parts
        if reason is None:
            raise self.fail()
        words = self._known(message, is_message=True)
        return Made(self.at(reason).texts(), self._known(subject), self._known(tone), words)

    def at(self, node: ast.expr) -> Place:
        return Place(self.module, self.path, node, self.scopes)

    def value(self, node: ast.expr | None = None) -> Any:
        """Return the value of a name of the module, dotted or not; None when it has none before the program runs."""
        match node or self.node:
            case ast.Name(id=name) if name != "self":
                return getattr(import_module(self.module), name, None)
            case ast.Attribute(value=owner, attr=name):
                return getattr(self.value(owner), name, None)
        return None

    def texts(self) -> Texts:
        """Return what the node stands for; it fails for what only running it would tell."""
        match self.node:
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                return (*self.at(one).texts(), *self.at(other).texts())
            case ast.Name(id=name) if bound := tuple(self._bindings(name)):
                return bound
            case ast.Attribute(value=ast.Name(id=name), attr=field) if owners := self._owners(name, field):
                return tuple(Parameter(owner, field) for owner in owners)
            case ast.Call(
                func=ast.Name(id="next"),
                args=[ast.GeneratorExp(elt=ast.Name(id=name), generators=[ast.comprehension(ast.Tuple(names), table)])],
            ):
                index = [ast.unparse(each) for each in names].index(name)
                return tuple(row[index] for row in self.value(table))
        if isinstance(found := self.value(), str):
            return (str(found),)
        raise self.fail()

    def _bindings(self, name: str) -> Iterator[str | Parameter]:
        for function in (scope for scope in reversed(self.scopes) if not isinstance(scope, ast.ClassDef)):
            values = _assignments(function)
            for node in _stored(function, name):
                if node not in values:
                    raise self.fail()
                yield from self.at(values[node]).texts()
            if name in _parameters(function):
                yield Parameter(self._callee(function), name)

    def _callee(self, function: Function) -> Callee:
        parameters = _parameters(function)
        given = [*function.args.defaults, *function.args.kw_defaults]  # one for each name after `*`, if only None
        named = zip(reversed(parameters), reversed(given), strict=False)
        defaults = {name: value for name, value in named if value is not None}
        names = [scope.name for scope in self.scopes[: self.scopes.index(function) + 1]]
        return Callee(self.module, ".".join(names), parameters, defaults)

    def _owners(self, name: str, field: str) -> list[Callee]:
        """Return the classes that a name can be of, as annotations and tests say, and that have the field."""
        if name == "self":
            module = import_module(self.module)
            types = [getattr(module, each.name) for each in self.scopes if isinstance(each, ast.ClassDef)]
        else:
            types = [each for scope in self.scopes for hint in _hints(scope, name) for each in self._types(hint)]
        return [found for each in dict.fromkeys(types) if field in (found := _callee_of(each)).parameters]

    def _types(self, hint: ast.expr) -> Sequence[type]:
        found = self.value(hint)
        if isinstance(hint, ast.BinOp):
            return [*self._types(hint.left), *self._types(hint.right)]
        return [each for each in (found, *get_args(found)) if isinstance(each, type)]

    def _known(self, node: ast.expr | None, *, is_message: bool = False) -> Texts:
        """Return the texts of what is shown beside a reason; empty when only running it would tell."""
        try:
            return () if node is None else self.at(node).message() if is_message else self.at(node).texts()
        except UnreadableReasonError:
            return ()

    def message(self) -> Texts:
        """Return the text for people; what depends on the case is a gap."""
        match self.node:
            case ast.JoinedStr(values=parts):
                words = [str(part.value) if isinstance(part, ast.Constant) else GAP for part in parts]
                return ("".join(words),)
            case ast.Name(id=name):
                values = [
                    value
                    for scope in self.scopes[-1:]
                    for target, value in _assignments(scope).items()
                    if target.id == name and value.lineno <= self.node.lineno
                ]
                if values:
                    return self.at(max(values, key=lambda value: value.lineno)).message()
        return self.texts()


@cache
def read_sources(root: Path) -> Sources:
    """Return what a package says; it is read once, which takes seconds."""
    return Sources(root)


class Sources:
    """What a package says, and where."""

    def __init__(self, root: Path) -> None:
        self._said: set[Said] = set()
        self._followed: set[tuple[Callee, Made]] = set()
        self._named: dict[str, list[Place]] = {}
        places = [place for path in sorted(root.rglob("*.py")) for place in _places(root, path)]
        for place in places:
            self._named.setdefault(place.name, []).append(place)
        for place in places:
            found = (_event(place), None if place.module.startswith(KUBERNETES_OWN) else _condition(place))
            for made in filter(None, found):
                self._say(place, made)

    @cache  # noqa: B019 - there is one of them
    def conditions(self) -> list[Said]:
        """Return what conditions say, each thing once, in order."""
        return sorted(said for said in self._said if said.tone not in SEVERITIES.values())

    @cache  # noqa: B019 - there is one of them
    def events(self) -> list[Said]:
        """Return what Events say, each thing once, in order."""
        return sorted(said for said in self._said if said.tone in SEVERITIES.values())

    def _say(self, place: Place, made: Made) -> None:
        _, subjects, tones, messages = ([each for each in texts if isinstance(each, str)] or [""] for texts in made)
        for reason in made.reason:
            if isinstance(reason, Parameter):
                self._follow(reason, made)
            elif reason and not REASON.fullmatch(reason):
                raise place.fail(f"{reason!r} is not a reason: write one CamelCase word")
            elif reason:
                rows = product(subjects, tones)
                self._said |= {Said(subject, reason, tone, messages[0], place.module) for subject, tone in rows}

    def _follow(self, parameter: Parameter, made: Made) -> None:
        """Read the calls that give a reason to a function or to a class."""
        callee = parameter.callee
        message = made.message or (Parameter(callee, "message"),)  # a value that carries both
        told = Made((parameter,), made.subject, made.tone, message)
        if callee.is_class and not made.subject and not any(isinstance(each, Parameter) for each in made.tone):
            told = Made((parameter,), (), (), message)  # several conditions and Events are made of this value
        if (callee, told) in self._followed:
            return
        self._followed.add((callee, told))
        for place in self._named.get(callee.name.rpartition(".")[2], ()):
            if place.is_of(callee):
                self._say(place, _filled(place, callee, told))


def _places(root: Path, path: Path) -> Iterator[Place]:
    """Yield what can give a reason: calls, rows of conditions, and names of functions that are not called."""
    module = ".".join([root.name, *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
    if not module.startswith(UNREAD):
        called: set[ast.expr] = set()
        nodes: list[tuple[ast.AST, tuple[ast.ClassDef | Function, ...]]] = [(ast.parse(path.read_text()), ())]
        for node, scopes in nodes:
            inner = (*scopes, node) if isinstance(node, ast.ClassDef | Function) else scopes
            nodes += [(child, inner) for child in ast.iter_child_nodes(node)]
            if isinstance(node, ast.Call):
                called.add(node.func)
            if isinstance(node, ast.Call | ast.Dict | ast.Name | ast.Attribute) and node not in called:
                yield Place(module, path, node, scopes)


def _condition(place: Place) -> Made | None:
    """Return the condition that a place makes."""
    match place.node:
        case ast.Dict(keys=keys, values=values):
            row = {key.value: value for key, value in zip(keys, values, strict=True) if isinstance(key, ast.Constant)}
            if {"type", "status", "reason"} <= row.keys():
                return place.made(row["reason"], row["type"], row["status"], row.get("message"))
        case ast.Call(func=ast.Attribute(value=owner, attr=status), args=args) if status in STATUSES:
            if place.value(owner) is Condition:
                subject, reason, message = (*args, None, None, None)[:3]
                return place.made(reason, subject, ast.Constant(STATUSES[status]), message)
        case ast.Attribute(value=owner, attr=status) if status in STATUSES and place.value(owner) is Condition:
            raise place.fail()
        case ast.Call(func=function) if place.value(function) is Condition:
            raise place.fail("use Condition.true, Condition.false or Condition.unknown")
        case ast.Call(keywords=given) if place.name == "replace" and any(each.arg == "reason" for each in given):
            raise place.fail()
    return None


def _event(place: Place) -> Made | None:
    """Return the Event that a place makes: by a recorder, which is not a logger, or as an object."""
    match place.node:
        case ast.Call(func=ast.Attribute(value=owner, attr="manifest"), keywords=given):
            if place.value(owner) in (EVENTS, CORE_EVENTS):
                named = {each.arg: each.value for each in given}
                return place.made(named.get("reason"), None, named.get("type"), named.get("note"))
        case ast.Call(func=ast.Attribute(value=owner, attr=severity), args=args) if severity in SEVERITIES:
            if not LOGGER.search(ast.unparse(owner)):
                _, reason, message = (*args, None, None, None)[:3]
                return place.made(reason, None, ast.Constant(SEVERITIES[severity]), message)
    return None


def _filled(place: Place, callee: Callee, told: Made) -> Made:
    """Return what a call says: its arguments in the place of the parameters."""
    if not isinstance(place.node, ast.Call):
        raise place.fail()
    given = {each.arg: each.value for each in place.node.keywords}
    given |= dict(zip(callee.parameters, place.node.args, strict=False))
    if None in given or any(isinstance(each, ast.Starred) for each in place.node.args):
        raise place.fail()

    def find(texts: Texts) -> ast.expr | None:
        names = [each.name for each in texts if isinstance(each, Parameter) and each.callee == callee]
        return next((given.get(name) or callee.defaults.get(name) for name in names), None)

    made = place.made(*map(find, told))
    known = [tuple(each for each in texts if isinstance(each, str)) for texts in told]
    return Made._make(own + shared for own, shared in zip(made, known, strict=True))


def _assignments(scope: ast.AST) -> dict[ast.Name, ast.expr]:
    """Return the names that are given a value of their own."""
    found: dict[ast.Name, ast.expr] = {}
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                found[target] = value
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                found[target] = value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                found |= {one: value for one, value in zip(targets, values, strict=True) if isinstance(one, ast.Name)}
    return found


def _stored(function: Function, name: str) -> list[ast.Name]:
    """Return where a name of the function is bound; a comprehension has names of its own."""
    nodes = [*ast.walk(function)]
    inner = {part for node in nodes if isinstance(node, ast.comprehension) for part in ast.walk(node.target)}
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    return [node for node in names if isinstance(node.ctx, ast.Store) and node not in inner]


def _parameters(function: Function) -> tuple[str, ...]:
    given = function.args
    return tuple(each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg != "self")


def _hints(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield of which classes a name is, as annotations and tests say."""
    for node in ast.walk(scope):
        match node:
            case ast.arg(arg=known, annotation=ast.expr() as hint) if known == name:
                yield hint
            case ast.ExceptHandler(name=known, type=ast.expr() as hint) if known == name:
                yield hint
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=known), hint]) if known == name:
                yield hint


@cache
def _callee_of(kind: type) -> Callee:
    parameters = inspect.signature(kind).parameters
    defaults = {name: ast.Constant(each.default) for name, each in parameters.items() if each.default is not each.empty}
    return Callee(kind.__module__, kind.__qualname__, tuple(parameters), defaults, is_class=True)
