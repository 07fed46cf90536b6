"""Built-in objects as a typed server reads and writes them.

Unknown fields disappear, nulls count as absent, empty values are left out unless the kind
always writes them or has a default for them, instants, quantities and base64 take their canonical form.
"""

import base64
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import Any, NoReturn

from msgspec import Struct, field

from watchword.api.json import copy_json
from watchword.api.meta import Object, Resource
from watchword.api.time import parse_any_rfc3339, rfc3339, rfc3339_micro
from watchword.apiserver.kinds.messages import UNIONS, Field, messages, zero
from watchword.apiserver.serving.bodies import json_type
from watchword.apiserver.serving.errors import WrongFieldType

_INTEGERS = {"int32": 31, "int64": 63}
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_MICRO_TIME = re.compile(r"[^.]*\.\d{6}(?:Z|[+-]\d{2}:\d{2})", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*", re.ASCII)


class TypeMismatch(Exception):
    """A value does not fit its type; `found` names its JSON type when that alone is the reason."""

    def __init__(self, message: str = "", *, found: str = "", wanted: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.found = found
        self.wanted = wanted


def _mismatch(value: Any, wanted: str) -> NoReturn:
    raise TypeMismatch(found=json_type(value), wanted=wanted)


def _integer(value: Any, kind: str) -> int:
    if isinstance(value, float):
        raise TypeMismatch(found=f"number {value:g}", wanted=kind)
    if json_type(value) != "number":
        _mismatch(value, kind)
    if not -(2 ** _INTEGERS[kind]) <= value < 2 ** _INTEGERS[kind]:
        raise TypeMismatch(found=f"number {value}", wanted=kind)
    return int(value)


def _strings(value: Any) -> list[str]:
    if not isinstance(value, list):
        _mismatch(value, "[]string")
    return [_COERCIONS["string"](item or "") for item in value]


def _quantity(value: Any) -> str:
    from watchword.api.quantity import WRONG_FORMAT, canonical_quantity

    text = value if isinstance(value, str) else repr(value) if json_type(value) == "number" else ""
    canonical = canonical_quantity(text.strip())
    if canonical is None:
        raise TypeMismatch(WRONG_FORMAT)
    return canonical


def _bytes(value: Any) -> str:
    if not isinstance(value, str):
        _mismatch(value, "[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise TypeMismatch(f"illegal base64 data at input byte {_first_bad_byte(text)}") from None
    return text


def _first_bad_byte(text: str) -> int:
    clean = _BASE64.match(text)
    end = clean.end() if clean else 0
    rest = text[end:].rstrip("=")
    return end if rest else end - end % 4


def _time(value: Any, *, micro: bool) -> str:
    if not isinstance(value, str):
        _mismatch(value, "string")
    # An object carries the times of its creation and its managers in every write; no time is much longer than these.
    read = _known_time if len(value) <= len(_MICRO_LAYOUT) else _canonical_time
    canonical = read(value, micro=micro)
    if canonical is None:
        layout = _MICRO_LAYOUT if micro else _TIME_LAYOUT
        raise TypeMismatch(f'parsing time "{value}" as "{layout}": cannot parse it')
    return canonical


def _canonical_time(value: str, *, micro: bool) -> str | None:
    instant = parse_any_rfc3339(value)
    if instant is None or (micro and not _MICRO_TIME.fullmatch(value)):
        return None
    return rfc3339_micro(instant) if micro else rfc3339(instant)


_known_time = lru_cache(maxsize=4096)(_canonical_time)


_COERCIONS: dict[str, Callable[[Any], Any]] = {
    "string": lambda value: value if isinstance(value, str) else _mismatch(value, "string"),
    "bool": lambda value: value if isinstance(value, bool) else _mismatch(value, "bool"),
    "int32": partial(_integer, kind="int32"),
    "int64": partial(_integer, kind="int64"),
    "time": partial(_time, micro=False),
    "microtime": partial(_time, micro=True),
    "double": lambda value: value if json_type(value) == "number" else _mismatch(value, "float64"),
    "bytes": _bytes,
    "quantity": _quantity,
    "intstr": lambda value: value if isinstance(value, str) else _integer(value, "int32"),
    "strings": _strings,
    "json": lambda value: value,
}


SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_GO_NAMES = {"bytes": "[]uint8", "double": "float64", "intstr": "intstr.IntOrString", "quantity": "resource.Quantity"}
_DEEPEST = 200


class _FieldContext(Struct, frozen=True):
    """A field with what an error message about it needs."""

    field: Field
    struct: str
    prefix: str  # the embedded struct, when the field is inlined
    always: bool  # written even when it is absent: kept empty, or with a default
    plain: bool  # a string, which needs no conversion
    keeps_empty: bool  # written when it is present, though empty: a message is a pointer or always written


class TypedDecoder(Struct, frozen=True):
    """Gives objects the shape of their message."""

    has_defaults: bool
    _fields: dict[str, list[_FieldContext]] = field(default_factory=dict)

    def conform(self, message: str, obj: Object) -> Object:
        """Return the object in the shape of its message; raises TypeMismatch."""
        kept: Object = {key: value for key, value in obj.items() if key in ("apiVersion", "kind")}
        return {**kept, **self._message(message, obj, "", 0)}

    def hook(self, resource: Resource, message: str) -> Callable[[Object], None]:
        """Return a default hook that conforms a body in place, or raises the 400 a typed server gives."""

        def conform_in_place(obj: Object) -> None:
            try:
                shaped = self.conform(message, obj)
            except TypeMismatch as misfit:
                head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
                raise WrongFieldType(head, misfit.message, found=misfit.found, wanted=misfit.wanted) from None
            metadata = obj.get("metadata")
            if isinstance(metadata, dict) and metadata.get("managedFields") == []:
                shaped["metadata"]["managedFields"] = []  # not absent: it resets all managers
            obj.clear()
            obj.update(shaped)

        return conform_in_place

    def _message(self, name: str, value: Object, path: str, depth: int) -> Object:
        if depth > _DEEPEST:
            raise TypeMismatch("json: exceeded max depth")
        shaped: Object = {}
        for place in self._fields_of(name):
            key = place.field.name
            given = value.get(key)
            if given is not None:
                fit = given if place.plain and type(given) is str else self._fit(place, given, path, depth)
                if fit or place.keeps_empty:
                    shaped[key] = fit
                    continue
            if place.always:
                shaped[key] = self._empty(place.field, depth)
        return shaped

    def _fit(self, place: _FieldContext, value: Any, path: str, depth: int) -> Any:
        inner = f"{path}{place.prefix}{place.field.name}"
        try:
            return self._field(place.field, value, f"{inner}.", depth)
        except TypeMismatch as misfit:
            if misfit.message or not misfit.found:
                raise
            where = f"Go struct field {place.struct}.{inner} of type {misfit.wanted}"
            message = f"json: cannot unmarshal {misfit.found} into {where}"
            raise TypeMismatch(message, found=misfit.found, wanted=misfit.wanted) from None

    def _empty(self, each: Field, depth: int) -> Any:
        if self.has_defaults and each.default is not None:
            return copy_json(each.default)
        if each.shape or each.pointer:
            return None
        return self._message(each.type, {}, "", depth + 1) if each.is_message else zero(each.type)

    def _field(self, each: Field, value: Any, path: str, depth: int) -> Any:
        if each.shape == "list":
            if not isinstance(value, list):
                raise TypeMismatch(found=json_type(value), wanted=f"[]{_go_name(each.type)}")
            return [self._one(each.type, item, path, depth) for item in value]
        if each.shape == "map":
            if not isinstance(value, dict):
                raise TypeMismatch(found=json_type(value), wanted=f"map[string]{_go_name(each.type)}")
            return {key: self._one(each.type, item, path, depth) for key, item in value.items()}
        return self._one(each.type, value, path, depth)

    def _one(self, kind: str, value: Any, path: str, depth: int) -> Any:
        if kind in UNIONS:
            return self._union(value, path, depth)
        if value is None and kind != "json":
            value = {} if "." in kind else "" if kind == "bytes" else zero(kind)
        if "." not in kind:
            return _COERCIONS[kind](value)
        if not isinstance(value, dict):
            raise TypeMismatch(found=json_type(value), wanted=_go_name(kind))
        return self._message(kind, value, path, depth + 1)

    def _union(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, dict):
            return self._message(SCHEMA, value, path, depth + 1)
        if isinstance(value, list):
            return [self._message(SCHEMA, item, path, depth + 1) if isinstance(item, dict) else item for item in value]
        return value

    def _fields_of(self, name: str) -> list[_FieldContext]:
        known = self._fields.get(name)
        if known is None:
            known = self._fields[name] = list(self._collect(name, ""))
        return known

    def _collect(self, name: str, prefix: str) -> Iterator[_FieldContext]:
        struct = name.rpartition(".")[2]
        for each in messages()[name].fields:
            if each.inline:
                embedded = each.type.rpartition(".")[2]
                yield from self._collect(each.type, f"{prefix}{embedded}.")
            else:
                always = each.always or (self.has_defaults and each.default is not None)
                keeps_empty = each.always or each.pointer or (each.is_message and not each.shape)
                plain = each.type == "string" and not each.shape
                yield _FieldContext(each, struct, prefix, always, plain, keeps_empty)


def _go_name(kind: str) -> str:
    if "." in kind:
        package, _, name = kind.rpartition(".")
        return f"{package.rpartition('.')[2]}.{name}"
    return _GO_NAMES.get(kind, kind)


@cache
def typed(*, has_defaults: bool = True) -> TypedDecoder:
    return TypedDecoder(has_defaults)
