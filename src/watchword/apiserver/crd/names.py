"""The names that a definition requests, and whether it may have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from watchword.api.conditions import Condition
from watchword.api.json import show
from watchword.api.meta import Object
from watchword.apiserver.crd.definition import names_of, objects, status_of, text, texts
from watchword.apiserver.field_errors import invalid, required
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.dns_names import dns1035_label_errors


def validate_names(names: Object, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with names by themselves."""
    for key in ("plural", "singular", "kind", "listKind"):
        said = text(names, key)
        if not said:
            yield required(f"{path}.{key}")
            continue
        mixed = key in {"kind", "listKind"}
        complaints = dns1035_label_errors(said.lower() if mixed else said)
        if complaints:
            prefix = "may have mixed case, but should otherwise match: " if mixed else ""
            yield invalid(f"{path}.{key}", said, prefix + complaints)
    for key in ("shortNames", "categories"):
        for index, said in enumerate(texts(names, key)):
            complaints = dns1035_label_errors(said)
            if complaints:
                yield invalid(f"{path}.{key}[{index}]", said, complaints)
    if text(names, "kind") and text(names, "kind") == text(names, "listKind"):
        yield invalid(f"{path}.listKind", text(names, "listKind"), "kind and listKind may not be the same")


class NamesDecision(Struct, frozen=True):
    """The names that a definition gets, and the condition about them."""

    accepted: Object
    condition: Condition


def decide_names(definition: Object, others: Iterable[Object]) -> NamesDecision:
    """Give a definition the names that no other definition of its group has; `others` are those of its group."""
    wanted, held = names_of(definition), status_of(definition).get("acceptedNames") or {}
    resources, kinds = _taken(others)
    accepted: Object = {key: value for key, value in held.items() if value}
    reason = message = ""
    for key, taken, refusal in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        conflicts = _conflicts(wanted.get(key), held.get(key), taken)
        if conflicts:
            reason, message = refusal, conflicts
        elif wanted.get(key):
            accepted[key] = wanted[key]
        else:
            accepted.pop(key, None)
    if texts(wanted, "categories"):
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    if reason:
        return NamesDecision(accepted, Condition("NamesAccepted", "False", reason, message))
    return NamesDecision(accepted, Condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"))


def _taken(others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = status_of(other).get("acceptedNames") or {}
        resources.update((text(names, "plural"), text(names, "singular"), *texts(names, "shortNames")))
        kinds.update((text(names, "kind"), text(names, "listKind")))
    return resources - {""}, kinds - {""}


def _conflicts(wanted: object, held: object, taken: set[str]) -> str:
    asked = wanted if isinstance(wanted, list) else [wanted]
    mine = held if isinstance(held, list) else [held]
    found = [f"{show(name)} is already in use" for name in asked if name and name not in mine and name in taken]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def is_established(definition: Object) -> bool:
    """Whether the definition was ever served."""
    conditions = objects(status_of(definition), "conditions")
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)
