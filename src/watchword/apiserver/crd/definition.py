"""Reads a CustomResourceDefinition, which may be invalid."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from watchword.api.conditions import Condition
from watchword.api.json import same_json, show
from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver.kinds.from_openapi import below, objects, text, texts
from watchword.apiserver.kinds.metadata import dns1035_label
from watchword.apiserver.serving.field_errors import invalid, required
from watchword.apiserver.serving.model import FieldError

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
SCHEMAS_REMEMBERED: Final = 256
"""So many documents are read and validated once per process: most control planes are given the same ones."""


def spec_of(definition: Object) -> Object:
    return below(definition, "spec") or {}


def names_of(definition: Object) -> Object:
    return below(spec_of(definition), "names") or {}


def versions_of(definition: Object) -> list[Object]:
    return objects(spec_of(definition), "versions")


def openapi_of(version: Object) -> Object | None:
    return below(below(version, "schema") or {}, "openAPIV3Schema")


def storage_version(definition: Object) -> str:
    return next((text(version, "name") for version in versions_of(definition) if version.get("storage")), "")


def status_of(definition: Object) -> Object:
    return below(definition, "status") or {}


def subresources_of(version: Object) -> Object:
    return below(version, "subresources") or {}


def places(definition: Object, key: str, shared: str) -> Iterator[tuple[str, Object]]:
    """Yield each version with the path for error messages.

    Kubernetes moves a field that all versions share to the spec, and error messages name it there.
    """
    versions = versions_of(definition)
    values = [version.get(key) for version in versions]
    if values and all(value and same_json(value, values[0]) for value in values):
        yield f"spec.{shared}", versions[0]
        return
    for index, version in enumerate(versions):
        yield f"spec.versions[{index}].{key}", version


def validate_names(names: Object, path: str) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        said = text(names, key)
        if not said:
            yield required(f"{path}.{key}")
            continue
        mixed = key in {"kind", "listKind"}
        complaints = ",".join(dns1035_label(said.lower() if mixed else said))
        if complaints:
            prefix = "may have mixed case, but should otherwise match: " if mixed else ""
            yield invalid(f"{path}.{key}", said, prefix + complaints)
    for key in ("shortNames", "categories"):
        for index, said in enumerate(texts(names, key)):
            complaints = ",".join(dns1035_label(said))
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
        ("categories", set(), ""),  # shared by any number of definitions
    ):
        conflicts = _conflicts(wanted.get(key), held.get(key), taken)
        if conflicts:
            reason, message = refusal, conflicts
        elif wanted.get(key):
            accepted[key] = wanted[key]
        else:
            accepted.pop(key, None)
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


ESTABLISHED: Final = Condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
NOT_ACCEPTED: Final = Condition("Established", "False", "NotAccepted", "not all names are accepted")
PENDING: Final = Condition(
    "Terminating",
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
DELETING: Final = Condition(
    "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)
DELETED: Final = Condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances")


def decide_status(definition: Object, others: Iterable[Object], now: datetime) -> Object:
    """Return the status that a definition should have; `others` are those of its group."""
    verdict = decide_names(definition, others)
    served = verdict.condition.status == "True" or is_established(definition)
    status = {**status_of(definition), "acceptedNames": {"plural": "", "kind": "", **verdict.accepted}}
    return with_conditions(status, [verdict.condition, ESTABLISHED if served else NOT_ACCEPTED], now)


def with_conditions(status: Object, wanted: Iterable[Condition], now: datetime) -> Object:
    """Return a status with these conditions; lastTransitionTime changes only with a condition's status."""
    rows = {text(row, "type"): row for row in objects(status, "conditions")}
    for condition in wanted:
        row = {
            "type": condition.type,
            "status": condition.status,
            "lastTransitionTime": rfc3339(now),
            "reason": condition.reason,
            "message": condition.message,
        }
        known = rows.get(condition.type)
        if known is not None and known.get("status") == condition.status and known.get("lastTransitionTime"):
            row["lastTransitionTime"] = known["lastTransitionTime"]
        rows[condition.type] = row
    return {**status, "conditions": list(rows.values())}
