"""Fields that a work leaves to the cluster once the object is there."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from watchword.api.json import copy_json
from watchword.api.jsonpath import JsonPathError, Location, locate
from watchword.api.meta import Object, annotations_of
from watchword.api.names import Annotation


class InvalidFieldPath(Exception):
    """A path in the configuration of a work is not understood; the message says which."""


_JQ_PATH = re.compile(r"(\.[A-Za-z0-9_]+|\[\d*\])+", re.ASCII)
"""Of jq, only what leads to a field: a whole language is more than a work may run here."""


def choose_apply_body(
    wanted: Object, present: Object | None, rules: Sequence[Mapping[str, Any]], *, digest: str
) -> tuple[Object, bool]:
    """Return what to apply by server-side apply, and whether it depends on what the cluster says.

    Ignored fields keep the value they have: leaving them out would make a server remove what we once set. With
    `OnSpokePresent` they are ignored once the object exists, with `OnSpokeChange` until the work itself changes.
    Raises `InvalidFieldPath`.
    """
    places = [place for rule in rules for place in locate_ignored(wanted, rule)]
    if present is None:
        return wanted, False
    unchanged = annotations_of(present).get(Annotation.APPLIED_DIGEST) == digest
    active = [rule for rule in rules if rule.get("condition") != "OnSpokeChange" or unchanged]
    places = [place for rule in active for place in locate_ignored(wanted, rule)]
    if not places:
        return wanted, False
    applied = copy_json(wanted)
    for place in sorted(places, key=_deepest_last_first, reverse=True):
        _keep_present_value(applied, present, place)
    return applied, True


def locate_ignored(wanted: Object, rule: Mapping[str, Any]) -> Iterable[Location]:
    """Return where a rule points to in a manifest; raises `InvalidFieldPath`."""
    for path in rule.get("jsonPaths") or ():
        yield from _locate(wanted, str(path))
    for pointer in rule.get("jsonPointers") or ():
        yield from _locate_pointer(wanted, str(pointer))
    for path in rule.get("jqPathExpressions") or ():
        if not _JQ_PATH.fullmatch(str(path)):
            raise InvalidFieldPath(f"{str(path)[:80]!r} of ignoreFields is more than a path: use jsonPaths instead")
        yield from _locate(wanted, str(path).replace("[]", "[*]"))


def _locate(wanted: Object, path: str) -> Iterable[Location]:
    try:
        places = locate(wanted, normalize_json_path(path))
    except JsonPathError as cause:
        raise InvalidFieldPath(f"the path {path[:80]!r} of ignoreFields is not understood: {cause}") from cause
    return _checked(places, path)


def normalize_json_path(path: str) -> str:
    """Return a JSONPath without the decorations that tools allow around it."""
    path = path.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$")
    return path if path.startswith((".", "[")) else f".{path}"


def _locate_pointer(wanted: Object, pointer: str) -> Iterable[Location]:
    if not pointer.startswith("/"):
        raise InvalidFieldPath(f"the pointer {pointer[:80]!r} of ignoreFields is not understood: it begins with '/'")
    place: Location = ()
    value: Any = wanted
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        at: str | int = int(name) if isinstance(value, list) and name.isascii() and name.isdigit() else name
        value = _below(value, at)
        if value is None:
            return []
        place = (*place, at)
    return _checked([place], pointer)


def _checked(places: list[Location], path: str) -> list[Location]:
    """Refuse to ignore what says which object it is."""
    for place in places:
        if not place or place[0] in ("apiVersion", "kind") or place in (("metadata",), ("metadata", "name")):
            raise InvalidFieldPath(f"{path[:80]!r} cannot be ignored: it says which object is meant")
    return places


def _deepest_last_first(place: Location) -> tuple[int, tuple[tuple[int, str], ...]]:
    # Removing the last items of a list first keeps the places of the others.
    return len(place), tuple((at, "") if isinstance(at, int) else (-1, at) for at in place)


def _keep_present_value(applied: Any, present: Any, place: Location) -> None:
    *way, last = place
    for at in way:
        applied, present = _below(applied, at), _below(present, at)
    value = _below(present, last)
    if applied is None:
        return
    if value is None:
        del applied[last]
    else:
        applied[last] = copy_json(value)


def _below(value: Any, at: str | int) -> Any:
    if isinstance(value, list) and isinstance(at, int):
        return value[at] if at < len(value) else None
    return value.get(at) if isinstance(value, Mapping) else None
