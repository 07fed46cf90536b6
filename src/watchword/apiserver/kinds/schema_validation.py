"""Validates an object against its schema, with Kubernetes' messages."""

import base64
import ipaddress
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import chain, islice
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from watchword.api.json import encode_identity, same_json, show, type_name
from watchword.api.time import parse_any_rfc3339
from watchword.apiserver.kinds.metadata import dns1035_label
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving import field_errors
from watchword.apiserver.serving.model import FieldError


def is_formatted(text: str, name: str) -> bool:
    """Whether the text has the named format; true for formats that are not enforced."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(text)


def _in_form(pattern: str, longest: int = 1024) -> Callable[[str], bool]:
    """Return a check in linear time: the text is a client's."""

    def check(text: str) -> bool:
        from watchword.cel.re2_patterns import compile_pattern

        return len(text) <= longest and bool(compile_pattern(f"^(?:{pattern})$").search(text))

    return check


def _parses(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


_is_date = _parses(date.fromisoformat)
_is_base64 = _parses(partial(base64.b64decode, validate=True))


def _is_uri(text: str) -> bool:
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path))


_HOST_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_HOSTNAME = rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*"
_DURATION = r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)"
_DURATION_IN_WORDS = r"(?:\d+\s*(?:ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)\w*\s*)+"

_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": lambda text: bool(text) and _is_base64(text),
    "date": lambda text: re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None and _is_date(text),
    "datetime": lambda text: parse_any_rfc3339(text.upper()) is not None,
    "duration": _in_form(f"{_DURATION}|{_DURATION_IN_WORDS}"),
    "hostname": lambda text: len(text) <= 255 and re.fullmatch(_HOSTNAME, text) is not None,  # of any alphabet
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "uri": _is_uri,
    "uuid": _in_form(r"(?i:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})"),
}


ABSENT: Final = object()
"""There is no earlier value; None would be a JSON null."""


def old_field(old: Any, schema: Schema, key: str) -> Any:
    if type(old) is not dict or schema.map_type == "atomic":
        return ABSENT
    return old.get(key, ABSENT)


def old_items(old: Any, schema: Schema) -> Callable[[Any], Any] | None:
    """Return how to find the earlier value of a list's item; None when items have no identity."""
    if type(old) is not list or schema.list_type != "map":
        return None
    keys = schema.list_map_keys
    known = {item_key(item, schema): item for item in reversed(old) if type(item) is dict}
    return lambda item: known.get(item_key(item, schema), ABSENT) if type(item) is dict and keys else ABSENT


def item_key(item: dict[str, Any], schema: Schema) -> bytes:
    defaults = schema.item.properties
    return encode_identity(
        [item.get(key, defaults[key].default if key in defaults else None) for key in schema.list_map_keys]
    )


def check_string(value: str, rules: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check length, pattern and format; the first of length and pattern to fail is the only one reported."""
    longest, shortest, pattern = rules.get("maxLength"), rules.get("minLength"), rules.get("pattern")
    if longest is not None and len(value) > longest:
        errors.append(field_errors.too_long(path, longest))
    elif shortest is not None and len(value) < shortest:
        errors.append(field_errors.invalid(path, value, f"{path} in body should be at least {shortest} chars long"))
    elif pattern and not _matches(pattern, value):
        errors.append(field_errors.invalid(path, value, f"{path} in body should match '{pattern}'"))
    name = rules.get("format")
    if name and not is_formatted(value, name):
        errors.append(field_errors.type_invalid(path, value, f"{path} in body must be of type {name}: {show(value)}"))


def check_number(value: float, rules: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    factor = rules.get("multipleOf")
    if factor and value % factor:
        errors.append(field_errors.invalid(path, value, f"{path} in body should be a multiple of {go_number(factor)}"))
    for bound, exclusive, is_beyond, words in (
        (rules.get("minimum"), rules.get("exclusiveMinimum"), operator.lt, "greater than"),
        (rules.get("maximum"), rules.get("exclusiveMaximum"), operator.gt, "less than"),
    ):
        if bound is not None and (is_beyond(value, bound) or (exclusive and value == bound)):
            told = f"{path} in body should be {words}{'' if exclusive else ' or equal to'} {go_number(bound)}"
            errors.append(field_errors.invalid(path, value, told))


def check_size(size: int, rules: Mapping[str, Any], what: str, path: str, errors: list[FieldError]) -> None:
    """Check how many `Items` or `Properties` (what) a container has."""
    least, most = rules.get(f"min{what}"), rules.get(f"max{what}")
    if least is not None and size < least:
        errors.append(field_errors.invalid(path, size, f"{path} in body should have at least {least} {what.lower()}"))
    if most is not None and size > most:
        errors.append(field_errors.too_many(path, size, most))


def check_enum(value: Any, allowed: list[Any], path: str, errors: list[FieldError]) -> None:
    if not any(same_json(value, item) for item in allowed):
        names = (item if isinstance(item, str) else show(item) for item in allowed)
        errors.append(field_errors.not_supported(path, value, names))


def go_number(value: float) -> str:
    """Print a number of a schema as kube-apiserver prints it."""
    return str(int(value)) if value == int(value) and abs(value) < 1e21 else show(value)


def _matches(pattern: str, value: str) -> bool:
    from watchword.cel.re2_patterns import compile_pattern

    try:
        return bool(compile_pattern(pattern).search(value))
    except re.error:
        return False


def _containing(feature: str, value: Any, schema: Schema, path: str) -> Iterator[tuple[Any, Schema, str]]:
    """Yield the values, here and below, whose schemas contain a feature, each with its schema and path."""
    if feature not in schema.contains:
        return
    yield value, schema, path
    if type(value) is dict:
        for key, item in value.items():
            yield from _containing(feature, item, schema.field(key), field_path(schema, path, key))
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _containing(feature, item, schema.item, f"{path}[{index}]")


def field_path(schema: Schema, path: str, key: str) -> str:
    if key not in schema.properties:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _check_embedded(value: dict[str, Any], prefix: str, errors: list[FieldError]) -> None:
    for key in ("apiVersion", "kind"):
        said, path = value.get(key), f"{prefix}{key}"
        if key not in value:
            errors.append(field_errors.required(path))
        elif not isinstance(said, str):
            errors.append(field_errors.invalid(path, said, "must be a string"))
        elif not said:
            errors.append(field_errors.invalid(path, said, "must not be empty"))
        elif key == "apiVersion" and said.count("/") > 1:
            errors.append(field_errors.invalid(path, said, f"unexpected GroupVersion string: {said}"))
        elif key == "kind" and (complaints := ",".join(dns1035_label(said.lower()))):
            errors.append(
                field_errors.invalid(path, said, f"may have mixed case, but should otherwise match: {complaints}")
            )
    if not isinstance(value.get("metadata", {}), dict):
        errors.append(field_errors.invalid(f"{prefix}metadata", value["metadata"], "must be an object"))


Check = Callable[[Any, Schema, str, Any, list[FieldError]], None]


def check_junctors(value: Any, schema: Schema, path: str, errors: list[FieldError], check: Check) -> None:
    """Append what the junctors of a schema find wrong with a value.

    Their own errors name no field; kube-apiserver prints <nil> there.
    """
    rules = schema.constraints

    def outcomes(schemas: Sequence[Schema]) -> list[list[FieldError]]:
        found: list[list[FieldError]] = [[] for _ in schemas]
        for branch, branch_errors in zip(schemas, found, strict=True):
            check(value, branch, path, ABSENT, branch_errors)
        return found

    def refuse(told: str) -> None:
        errors.append(field_errors.invalid("<nil>", "", f"{show(path)} must {told}"))

    found = outcomes(rules.get("anyOf", ()))
    if found and all(found):
        refuse("validate at least one schema (anyOf)")
        errors.extend(_closest(rules["anyOf"], found, value))
    found = outcomes(rules.get("oneOf", ()))
    fitting = found.count([])
    if found and fitting != 1:
        told = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
        refuse(f"validate one and only one schema (oneOf). {told}")
    if found and not fitting:
        errors.extend(_closest(rules["oneOf"], found, value))
    found = outcomes(rules.get("allOf", ()))
    if any(found):
        errors.extend(chain.from_iterable(found))
        refuse(f"validate all the schemas (allOf){'. None validated' if all(found) else ''}")
    if "not" in rules and not outcomes([rules["not"]])[0]:
        refuse("not validate the schema (not)")


def _closest(schemas: Sequence[Schema], found: list[list[FieldError]], value: Any) -> list[FieldError]:
    # The branch with the most errors about the value is the one that the author most likely meant.
    best = max(range(len(schemas)), key=lambda index: (_overlap(schemas[index], value), -index))
    return found[best]


def _overlap(schema: Schema, value: Any) -> int:
    if type(value) is dict:
        return sum(1 + _overlap(below, value[key]) for key, below in schema.properties.items() if key in value)
    if type(value) is list and schema.items is not None:
        return sum(1 + _overlap(schema.items, item) for item in value)
    return 0


def _repeated_items(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    for found, its_schema, place in _containing("unique lists", value, schema, path):
        if type(found) is list:
            yield from _duplicates(found, its_schema, place)


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.list_type == "atomic":
        return
    identities = value
    if schema.list_type == "map":
        for index, item in enumerate(value):
            if item is not None and type(item) is not dict:
                yield field_errors.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
                return
        identities = [{key: item[key] for key in schema.list_map_keys if key in item} if item else {} for item in value]
    seen: dict[bytes, int] = {}
    for index, identity in enumerate(identities):
        encoded = encode_identity(identity)
        seen[encoded] = seen.get(encoded, 0) + 1
        if seen[encoded] == 2:
            yield field_errors.duplicate(f"{path}[{index}]", identity)


_ACCEPTED: Final[dict[str, frozenset[type]]] = {
    "object": frozenset((dict,)),
    "array": frozenset((list,)),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
    "integer": frozenset((int,)),
    "number": frozenset((int, float)),
    "int-or-string": frozenset((int, str)),
    "any": frozenset((dict, list, str, bool, int, float)),
}
MAX_ERRORS: Final = 500  # more do not help, and a large object could have as many errors as fields
_BLOCKING = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)


def validate(value: Any, schema: Schema, *, old: Any = ABSENT, path: str = "") -> list[FieldError]:
    """Return every broken rule; with `old`, what was already wrong and did not change is tolerated."""
    errors: list[FieldError] = []
    check(value, schema, path, old, errors)
    for found, its_schema, place in _containing("embedded", value, schema, path):
        if its_schema.embedded_resource and type(found) is dict:
            _check_embedded(found, f"{place}." if place else "", errors)
    repeated = list(islice(_repeated_items(value, schema, path), MAX_ERRORS))
    if repeated and (old is ABSENT or not any(_repeated_items(old, schema, path))):
        errors.extend(repeated)
    if "rules" in schema.contains:
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(replace(field_errors.invalid("<nil>", None, _RULES_NOT_CHECKED), is_last=True))
        else:
            from watchword.apiserver.kinds.validation_rules import check_rules

            check_rules(value, schema, path, old, errors)
    return errors


def check(value: Any, schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    if len(errors) >= MAX_ERRORS:
        return
    if old is not ABSENT and same_json(value, old):
        return  # what did not change is tolerated, so it is not looked at
    kind = type(value)
    if kind not in _ACCEPTED[schema.type]:
        _check_type(value, schema, path, errors)
    rules = schema.constraints
    if rules and value is not None:
        check_junctors(value, schema, path, errors, check)
        if kind is str:
            check_string(value, rules, path, errors)
        elif kind is int or kind is float:
            check_number(value, rules, path, errors)
    if kind is list:
        _check_list(value, schema, path, old, errors)
    if rules and "enum" in rules:
        check_enum(value, rules["enum"], path, errors)
    if kind is dict:
        _check_object(value, schema, path, old, errors)


def _check_type(value: Any, schema: Schema, path: str, errors: list[FieldError]) -> None:
    if value is None and (schema.nullable or schema.type == "any"):
        return
    is_exact = type(value) is float and value.is_integer() and abs(value) < 2**53
    if is_exact and schema.type in {"integer", "int-or-string"}:
        return
    wanted = "integer,string" if schema.type == "int-or-string" else schema.type
    found = type_name(value)
    errors.append(field_errors.type_invalid(path, found, f"{path} in body must be of type {wanted}: {show(found)}"))


def _check_list(value: list[Any], schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    items = schema.items
    if items is not None:
        accepted = () if items.constraints else _ACCEPTED[items.type] - {dict, list}
        before = old_items(old, schema) if old is not ABSENT else None
        for index, item in enumerate(value):
            if type(item) not in accepted:
                check(item, items, f"{path}[{index}]", before(item) if before else ABSENT, errors)
    if schema.constraints:
        check_size(len(value), schema.constraints, "Items", path, errors)


def _check_object(value: dict[str, Any], schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    if schema.constraints:
        check_size(len(value), schema.constraints, "Properties", path, errors)
    properties, additional = schema.properties, schema.additional
    for key, item in value.items():
        below = properties.get(key, additional)
        if below is None:
            continue
        kind = type(item)
        # The common case, a plain scalar of the right type, needs no call and no path.
        if not below.constraints and kind is not dict and kind is not list and kind in _ACCEPTED[below.type]:
            continue
        check(item, below, f"{path}.{key}" if path else key, old_field(old, schema, key), errors)
    missing = [key for key in schema.required if key not in value]
    errors.extend(field_errors.required(f"{path}.{key}" if path else key) for key in missing)


_RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
