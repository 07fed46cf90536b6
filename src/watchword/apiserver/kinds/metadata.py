"""What metadata of any object must look like: names, labels, annotations, owners, finalizers; label selectors."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.meta import Object
from watchword.apiserver.serving.field_errors import forbidden, invalid, required, too_long
from watchword.apiserver.serving.model import FieldError, Operation, Validator

NameRule = Callable[[str], list[str]]
"""Returns what is wrong with a name, nothing when it is right."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


class _Rule(Struct, frozen=True):
    words: str  # what is said of a text that does not match
    pattern: str
    examples: tuple[str, ...]

    def complaint(self) -> str:
        shown = " or ".join(f"'{example}', " for example in self.examples)
        return f"{self.words} (e.g. {shown}regex used for validation is '{self.pattern}')"


_LOWER = "must consist of lower case alphanumeric characters"
_ENDS = "must start and end with an alphanumeric character"
_LABEL_RULE = _Rule(f"a lowercase RFC 1123 label {_LOWER} or '-', and {_ENDS}", _LABEL, ("my-name", "123-abc"))
_SUBDOMAIN_RULE = _Rule(
    f"a lowercase RFC 1123 subdomain {_LOWER}, '-' or '.', and {_ENDS}", _SUBDOMAIN, ("example.com",)
)
_DNS1035_RULE = _Rule(
    f"a DNS-1035 label {_LOWER} or '-', start with an alphabetic character, and end with an alphanumeric character",
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    ("my-name", "abc-123"),
)
_WORDS = f"consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
_QUALIFIED_RULE = _Rule(f"must {_WORDS}", _QUALIFIED, ("MyName", "my.name", "123-abc"))
_VALUE_RULE = _Rule(
    f"a valid label must be an empty string or {_WORDS}", f"({_QUALIFIED})?", ("MyValue", "my_value", "12345")
)
_CONFIG_RULE = _Rule(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    ("key.name", "KEY_NAME", "key-name"),
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _pattern_errors(text: str, rule: _Rule, limit: int, unit: str = "characters") -> list[str]:
    matches = _compiled(rule.pattern).fullmatch(text) is not None
    if matches and len(text) <= limit:  # no pattern matches a character of several bytes
        return []
    found = [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []
    return found if matches else [*found, rule.complaint()]


def dns_label(name: str) -> list[str]:
    found = _pattern_errors(name, _LABEL_RULE, 63)
    if found and "." in name and _compiled(_SUBDOMAIN).fullmatch(name) is not None:
        found[-1] = "must not contain dots"
    return found


def dns_subdomain(name: str, *, unit: str = "characters") -> list[str]:
    """Validate a DNS subdomain of RFC 1123, as most objects are named; keys of labels count bytes."""
    return _pattern_errors(name, _SUBDOMAIN_RULE, 253, unit)


def dns1035_label(name: str) -> list[str]:
    return _pattern_errors(name, _DNS1035_RULE, 63)


def path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


def any_name(_: str) -> list[str]:
    return []


def generated_prefix(prefix: str, rule: NameRule) -> list[str]:
    """Validate a generateName by the rule for names: the suffix makes a trailing dash valid."""
    return rule(prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix)


def qualified_name(key: str) -> list[str]:
    """Validate a label key, an annotation key or a finalizer: an optional domain, then a name."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        complaint = f"a valid label key {_QUALIFIED_RULE.complaint()} with an optional DNS subdomain prefix and '/'"
        return [f"{complaint} (e.g. 'example.com/MyName')"]
    found = list[str]()
    for prefix in prefixes:
        complaints = dns_subdomain(prefix, unit="bytes") if prefix else ["must be non-empty"]
        found.extend(f"prefix part {each}" for each in complaints)
    if not name:
        found.append("name part must be non-empty")
    found.extend(f"name part {each}" for each in _pattern_errors(name, _QUALIFIED_RULE, 63, "bytes"))
    return found


def label_value(value: str) -> list[str]:
    return _pattern_errors(value, _VALUE_RULE, 63, "bytes")


def config_key(key: str) -> list[str]:
    """Validate a key of a Secret or ConfigMap: it becomes a file name."""
    found = _pattern_errors(key, _CONFIG_RULE, 253)
    if key == ".":
        found.append("must not be '.'")
    elif key == "..":
        found.append("must not be '..'")
    elif key.startswith(".."):
        found.append("must not start with '..'")
    return found


MAX_ANNOTATION_BYTES = 256 * 1024
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
IMMUTABLE = "field is immutable"
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def metadata_validator(rule: NameRule = dns_subdomain) -> Validator:
    def validate(operation: Operation) -> list[FieldError]:
        new = (operation.new or {}).get("metadata") or {}
        if operation.old is None:
            namespaced = operation.kind.resource.namespaced
            found = [*_new_errors(new, rule, namespaced=namespaced), *metadata_errors(new, "metadata")]
            if not operation.kind.custom:
                found.extend(unqualified_finalizers(new.get("finalizers") or [], "metadata.finalizers"))
            return found
        old = operation.old.get("metadata") or {}
        # kube-apiserver validates these twice, for every object and for the kind, and reports both causes.
        found = list(_update_errors(new, old))
        return [*found, *found, *metadata_errors(new, "metadata", finalizers=False)]

    return validate


def metadata_errors(metadata: Object, path: str, *, finalizers: bool = True) -> list[FieldError]:
    found: list[FieldError] = []
    for name, check in _METADATA_CHECKS.items():
        if metadata.get(name) and (finalizers or name != "finalizers"):
            found.extend(check(metadata[name], f"{path}.{name}"))
    return found


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        for complaint in qualified_name(key):
            yield invalid(path, key, complaint)
        for complaint in label_value(value):
            yield invalid(path, value, complaint)


def annotation_errors(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key in annotations:
        yield from (invalid(path, key, complaint) for complaint in qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        yield too_long(path, MAX_ANNOTATION_BYTES)


def owner_errors(owners: list[Object], path: str) -> Iterator[FieldError]:
    """Validate owner references: complete, and at most one controller."""
    controller = ""
    for owner in owners:
        yield from _owner_errors(owner, path)
        if owner.get("controller") is not True:
            continue
        name = f"{owner.get('kind')}/{owner.get('name')}"
        if controller:
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {name}'
            )
            printed = orjson.dumps(
                [{name: each[name] for name in _OWNER_FIELDS if name in each} for each in owners]
            ).decode()
            yield FieldError(path, "FieldValueInvalid", f"Invalid value: {printed}: {detail}")
        else:
            controller = name


def _owner_errors(owner: Object, path: str) -> Iterator[FieldError]:
    version = (owner.get("apiVersion") or "").rpartition("/")[2]
    if not version:
        yield invalid(f"{path}.apiVersion", owner.get("apiVersion") or "", "version must not be empty")
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            yield invalid(f"{path}.{name}", "", "must not be empty")
    if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
        yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")


def finalizer_errors(finalizers: list[str], path: str) -> Iterator[FieldError]:
    """Validate the names of finalizers; `orphan` and `foregroundDeletion` exclude each other."""
    for finalizer in finalizers:
        yield from (invalid(path, finalizer, complaint) for complaint in qualified_name(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def unqualified_finalizers(finalizers: list[str], path: str) -> Iterator[FieldError]:
    """Validate what only built-in kinds forbid: finalizers without a domain."""
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{path}[{index}]", finalizer, detail)


_METADATA_CHECKS: dict[str, Callable[[Any, str], Iterator[FieldError]]] = {
    "labels": label_errors,
    "annotations": annotation_errors,
    "ownerReferences": owner_errors,
    "finalizers": finalizer_errors,
}
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def immutable_errors(new: Any, old: Any, path: str) -> list[FieldError]:
    """Validate a field that may not change once set."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def _new_errors(metadata: Object, rule: NameRule, *, namespaced: bool) -> Iterator[FieldError]:
    prefix = metadata.get("generateName") or ""
    if prefix:
        yield from (invalid("metadata.generateName", prefix, told) for told in generated_prefix(prefix, rule))
    name = metadata.get("name") or ""
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from (invalid("metadata.name", name, complaint) for complaint in rule(name))
    namespace = metadata.get("namespace") or ""
    if namespaced and not namespace:
        yield required("metadata.namespace")
    elif namespaced:
        yield from (invalid("metadata.namespace", namespace, complaint) for complaint in dns_label(namespace))
    elif namespace:
        yield forbidden("metadata.namespace", "not allowed on this type")


def _update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            yield forbidden("metadata.finalizers", detail)
    for name in _IMMUTABLE:
        yield from immutable_errors(new.get(name), old.get(name), f"metadata.{name}")


def selector_errors(selector: Object, path: str) -> Iterator[FieldError]:
    yield from label_errors(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement_errors(requirement, f"{path}.matchExpressions[{index}]")


def _requirement_errors(requirement: Object, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    yield from (invalid(f"{path}.key", key, complaint) for complaint in qualified_name(key))
    for index, value in enumerate(values):
        yield from (invalid(f"{path}.values[{index}]", value, complaint) for complaint in label_value(value))
