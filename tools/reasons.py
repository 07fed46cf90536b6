"""Finds in the sources what the program can say in conditions and events: read as text, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

ROOMS = (
    "admin",
    "registration",
    "addons",
    "accounts",
    "credentials",
    "cli",
    "discovery",
    "operator",
    "processes",
    "pullsecrets",
    "work",
)
EVENT_ROOMS = ("apiserver",)
"""Where Events of our own are told besides; the conditions there are Kubernetes' own."""
STATUSES = {"true": "True", "false": "False", "unknown": "Unknown"}
SEVERITIES = {"normal": "Normal", "warning": "Warning", "refusal": "Warning"}
GAP = "…"


@dataclass(frozen=True, slots=True, order=True)
class Said:
    """One thing that can be said; `subject` is a condition's type, empty where it is handed on as a value."""

    subject: str
    reason: str
    tone: str  # a condition's status, or an event's severity
    message: str
    module: str


@dataclass(frozen=True)
class Module:
    """One file: its tree, and the texts that its names stand for."""

    name: str
    tree: ast.Module
    imports: Mapping[str, str]  # a name → the module it comes from, or that it is

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Return every function, methods included."""
        return (node for node in _nodes(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@dataclass(frozen=True)
class Speaker:
    """A function or a class that is given a reason."""

    reason: int
    message: int | None
    subject: str = ""
    tone: str = ""


@cache
def read_sources(root: Path) -> Sources:
    """Return what a folder of sources says; it is read once, which takes seconds."""
    return Sources(root)


@cache
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


class Sources:
    """Everything that is read, and what names mean in it."""

    def __init__(self, root: Path) -> None:
        self.modules = _parse_rooms(root, ROOMS)
        self._event_modules = [*self.modules, *_parse_rooms(root, EVENT_ROOMS)]
        known = [_parse(root, root / "api" / "names.py"), *self._event_modules]
        self._texts = {module.name: _texts(module.tree) for module in known}

    @cache  # noqa: B019 - there is one of them
    def conditions(self) -> list[Said]:
        """Return what conditions say, each thing once, in order."""
        return sorted({said for module in self.modules for said in self._said(module)})

    @cache  # noqa: B019 - there is one of them
    def events(self) -> list[Said]:
        """Return what events say, each thing once, in order."""
        return sorted({said for module in self._event_modules for said in self._told(module)})

    def _said(self, module: Module) -> Iterator[Said]:
        yield from self._reported(module)
        speakers = self._speakers(module)
        for function in module.functions():
            for call in _calls(function):
                speaker = _condition(call) or speakers.get(_called(call))
                if speaker is None:
                    continue
                own = _condition(call) is not None
                subjects = self.resolve(module, function, call.args[0]) if own and call.args else {speaker.subject}
                yield from self._rows(module, function, call, (speaker, sorted(subjects) or [""]))

    def _reported(self, module: Module) -> Iterator[Said]:
        """Return what is reported about each driver's credentials: the reasons stand in its description."""
        for call in _calls(module.tree):
            if _called(call) == "CredentialCondition":
                type_, *reasons = ({*self.resolve(module, module.tree, each)} for each in call.args)
                for tone, known in zip(("True", "False"), reasons, strict=False):
                    yield from (Said(subject, reason, tone, "", module.name) for subject in type_ for reason in known)

    def _told(self, module: Module) -> Iterator[Said]:
        helpers = _event_helpers(module)
        for function in module.functions():
            for call in _calls(function):
                speaker = _event(call)
                if speaker is not None:
                    yield from self._rows(module, function, call, (speaker, [""]))
                elif _called(call) in helpers:
                    yield from self._rows(module, function, call, (helpers[_called(call)], [""]))
                elif _called(call) == "NewEpoch":
                    tone = min(self.resolve(module, function, call.args[0]))
                    yield from self._rows(module, function, call, (Speaker(1, 2, tone=tone), [""]))

    def _rows(
        self, module: Module, function: ast.AST, call: ast.Call, spoken: tuple[Speaker, Sequence[str]]
    ) -> Iterator[Said]:
        speaker, subjects = spoken
        message = min(self.resolve(module, function, _argument(call, speaker.message, "message")), default="")
        for reason in self.resolve(module, function, _argument(call, speaker.reason, "reason")):
            if reason and GAP not in reason:
                yield from (Said(subject, reason, speaker.tone, message, module.name) for subject in subjects)

    def _speakers(self, module: Module) -> dict[str, Speaker]:
        """Return what hands on a reason here: helpers that make a condition of it, and values that carry it."""
        found: dict[str, Speaker] = {}
        for node in _nodes(module.tree):
            if isinstance(node, ast.ImportFrom):
                found |= {alias.name: CARRIERS[alias.name] for alias in node.names if alias.name in CARRIERS}
            elif isinstance(node, ast.Attribute) and node.attr in CARRIERS:
                found[node.attr] = CARRIERS[node.attr]
            elif isinstance(node, ast.ClassDef) and node.name in CARRIERS:
                found[node.name] = CARRIERS[node.name]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _position(node, "reason") is not None:
                found[node.name] = self._helper(module, node)
        return found

    def _helper(self, module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Speaker:
        reason, message = _position(node, "reason") or 0, _position(node, "message")
        for call in _calls(node):
            made = _condition(call)
            if made is not None and call.args:
                subject = next(iter(sorted(self.resolve(module, node, call.args[0]))), "")
                return Speaker(reason, message, subject, made.tone)
        return Speaker(reason, message)

    def resolve(self, module: Module, function: ast.AST, node: ast.expr | None) -> set[str]:
        """Return the texts that an expression can stand for; empty when only running it would tell."""
        found: set[str] = set()
        match node:
            case ast.Constant(value=str(text)):
                found = {text}
            case ast.JoinedStr(values=parts):
                found = _templates([self._part(module, function, part) for part in parts])
            case ast.IfExp(body=one, orelse=other):
                found = self.resolve(module, function, one) | self.resolve(module, function, other)
            case ast.Name(id=name):
                values = _assigned(function, name, before=node.lineno)
                texts = [self.resolve(module, function, value) for value in values]
                found = set().union(*texts) if texts else self._constant(module, name)
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(generators=[rows])]):
                found = self._words(module, rows.iter)
            case ast.Attribute():
                found = self._constant(module, ast.unparse(node))
        return found

    def _part(self, module: Module, function: ast.AST, part: ast.expr) -> set[str]:
        """Return the texts of a part of a text: those that a loop names one by one, else a gap."""
        if isinstance(part, ast.FormattedValue):
            name = part.value.id if isinstance(part.value, ast.Name) else ""
            return {word for loop in _loops(function, name) for word in _strings(loop)} or {GAP}
        return self.resolve(module, function, part)

    def _words(self, module: Module, rows: ast.expr) -> set[str]:
        table = self._texts[module.name].get(rows.id) if isinstance(rows, ast.Name) else None
        return set(_strings(table)) if table is not None else set()

    def _constant(self, module: Module, name: str) -> set[str]:
        first = name.partition(".")[0]
        source = module.imports.get(first, "")
        places = [module.name, source, f"{source}.{first}"]
        for place in places:
            texts = self._texts.get(place, {})
            for spelling in (name, name.partition(".")[2]):
                if spelling in texts:
                    return self._follow(place, texts[spelling])
        return set()

    def _follow(self, place: str, value: ast.expr) -> set[str]:
        module = next((each for each in self.modules if each.name == place), None)
        if isinstance(value, ast.Constant):
            return {value.value} if isinstance(value.value, str) else set()
        return self.resolve(module, ast.Module([], []), value) if module is not None else set()


CARRIERS = {
    "Pending": Speaker(0, 1),
    "SpecError": Speaker(0, 1),
    "NotGranted": Speaker(0, 1, "HubAcceptedManagedCluster", "False"),
    "Said": Speaker(1, 2, tone="False"),
}
"""Values that bring a reason to the condition that is made of them elsewhere."""


def _parse_rooms(root: Path, rooms: Sequence[str]) -> list[Module]:
    return [_parse(root, path) for room in rooms for path in sorted((root / room).rglob("*.py"))]


def _parse(root: Path, path: Path) -> Module:
    name = ".".join(["watchword", *path.relative_to(root).with_suffix("").parts])
    tree = ast.parse(path.read_text())
    return Module(name.removesuffix(".__init__"), tree, _imports(tree))


def _texts(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the constants of a module and of its classes."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}": value for name, value in _assignments(node.body)}
    return found | dict(_assignments(tree.body))


def _assignments(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                yield target.id, value
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from (
                    (each.id, part)
                    for each, part in zip(target.elts, value.elts, strict=False)
                    if isinstance(each, ast.Name)
                )


def _assigned(function: ast.AST, name: str, *, before: int) -> list[ast.expr]:
    """Return what a name was last given before a line: as good as running it, for code that reads downwards."""
    statements = [node for node in _nodes(function) if isinstance(node, ast.Assign | ast.AnnAssign)]
    found = [value for target, value in _assignments(statements) if target == name and value.lineno <= before]
    return sorted(found, key=lambda value: value.lineno)[-1:]


def _loops(function: ast.AST, name: str) -> list[ast.expr]:
    loops = [node for node in _nodes(function) if isinstance(node, ast.For)]
    return [loop.iter for loop in loops if isinstance(loop.target, ast.Name) and loop.target.id == name]


def _strings(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _imports(tree: ast.Module) -> dict[str, str]:
    """Return from which module a name comes, or which module it is."""
    found = {}
    for node in _nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inside = alias.name.islower() and not alias.name.startswith("_")
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}" if inside else node.module
    return found


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    return (node for node in _nodes(function) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    target = call.func
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _owner(target: ast.Attribute) -> str:
    owner = target.value
    return owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""


def _condition(call: ast.Call) -> Speaker | None:
    target = call.func
    if isinstance(target, ast.Attribute) and target.attr in STATUSES and _owner(target) == "Condition":
        return Speaker(1, 2, tone=STATUSES[target.attr])
    return None


def _event(call: ast.Call) -> Speaker | None:
    target = call.func
    if (
        isinstance(target, ast.Attribute)
        and target.attr in SEVERITIES
        and _owner(target) in ("events", "warning_recorder")
    ):
        return Speaker(1, 2, tone=SEVERITIES[target.attr])
    return None


def _event_helpers(module: Module) -> dict[str, Speaker]:
    """Return the functions that record an Event with the reason that they are given."""
    found = {}
    for node in module.functions():
        reason = _position(node, "reason")
        for call in _calls(node) if reason is not None else ():
            told = _event(call)
            if (
                told is not None
                and isinstance(given := _argument(call, 1, "reason"), ast.Name)
                and given.id == "reason"
            ):
                found[node.name] = Speaker(reason or 0, _position(node, "message"), tone=told.tone)
    return found


def _position(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> int | None:
    names = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
    return names.index(name) if name in names else None


def _argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _templates(parts: Sequence[set[str]]) -> set[str]:
    return {"".join(words) for words in product(*(sorted(part) for part in parts))}
