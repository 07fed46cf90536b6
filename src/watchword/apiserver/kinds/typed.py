"""Built-in objects as a typed server reads and writes them.

Unknown fields disappear, nulls count as absent, empty values are left out unless the kind
always writes them, instants, quantities and base64 take their canonical form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object, Resource
from watchword.apiserver.errors import WrongFieldType
from watchword.apiserver.kinds.fields import Field, Messages
from watchword.apiserver.kinds.scalars import TypeMismatch, coerce_scalar, json_type, zero

SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_UNIONS = frozenset({"schemaOrArray", "schemaOrBool", "schemaOrStrings"})
_GO_NAMES = {"bytes": "[]uint8", "double": "float64", "intstr": "intstr.IntOrString", "quantity": "resource.Quantity"}
_DEEPEST = 200


class _FieldContext(Struct, frozen=True):
    """A field with what an error message about it needs."""

    field: Field
    struct: str
    prefix: str  # the embedded struct, when the field is inlined


class _MessageFields(Struct, frozen=True):
    """The fields of a message by name, in the order in which they are written."""

    contexts: dict[str, _FieldContext]
    positions: dict[str, int]
    always: frozenset[str]  # written even when they are absent

    def concerned(self, value: Object) -> list[str]:
        """Return the fields that a value states or that are always written: few of those there are."""
        return sorted((self.contexts.keys() & value.keys()) | self.always, key=self.positions.__getitem__)


class TypedDecoder(Struct, frozen=True):
    """Gives objects the shape of their message."""

    messages: Messages
    _fields: dict[str, _MessageFields] = field(default_factory=dict)

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
        fields = self._fields_of(name)
        for key in fields.concerned(value):
            place = fields.contexts[key]
            each = place.field
            given = value.get(key)
            if given is None:
                if each.always:
                    shaped[key] = self._empty(each, depth)
                continue
            if type(given) is str and each.type == "string" and not each.shape:  # most fields: nothing to convert
                if given or each.always or each.pointer:
                    shaped[key] = given
                continue
            inner = f"{path}{place.prefix}{key}"
            try:
                fit = self._field(each, given, f"{inner}.", depth)
            except TypeMismatch as misfit:
                raise _located(misfit, place.struct, inner) from None
            if each.always or each.pointer or not _is_zero(fit, each):
                shaped[key] = fit
        return shaped

    def _empty(self, each: Field, depth: int) -> Any:
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
        if kind in _UNIONS:
            return self._union(value, path, depth)
        if value is None and kind != "json":
            value = {} if "." in kind else "" if kind == "bytes" else zero(kind)
        if "." not in kind:
            return coerce_scalar(kind, value)
        if not isinstance(value, dict):
            raise TypeMismatch(found=json_type(value), wanted=_go_name(kind))
        return self._message(kind, value, path, depth + 1)

    def _union(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, dict):
            return self._message(SCHEMA, value, path, depth + 1)
        if isinstance(value, list):
            return [self._message(SCHEMA, item, path, depth + 1) if isinstance(item, dict) else item for item in value]
        return value

    def _fields_of(self, name: str) -> _MessageFields:
        known = self._fields.get(name)
        if known is None:
            contexts = dict(self._collect(name, ""))
            positions = {key: position for position, key in enumerate(contexts)}
            always = frozenset(key for key, context in contexts.items() if context.field.always)
            known = self._fields[name] = _MessageFields(contexts, positions, always)
        return known

    def _collect(self, name: str, prefix: str) -> list[tuple[str, _FieldContext]]:
        struct = name.rpartition(".")[2]
        found: list[tuple[str, _FieldContext]] = []
        for each in self.messages[name].fields:
            if each.inline:
                embedded = each.type.rpartition(".")[2]
                found.extend(self._collect(each.type, f"{prefix}{embedded}."))
            else:
                found.append((each.name, _FieldContext(each, struct, prefix)))
        return found


def _is_zero(value: Any, each: Field) -> bool:
    # A present message is a pointer or always written: an empty one is meaningful.
    if each.is_message and not each.shape:
        return False
    return not value


def _located(misfit: TypeMismatch, struct: str, path: str) -> TypeMismatch:
    if misfit.message or not misfit.found:
        return misfit
    message = f"json: cannot unmarshal {misfit.found} into Go struct field {struct}.{path} of type {misfit.wanted}"
    return TypeMismatch(message, found=misfit.found, wanted=misfit.wanted)


def _go_name(kind: str) -> str:
    if "." in kind:
        package, _, name = kind.rpartition(".")
        return f"{package.rpartition('.')[2]}.{name}"
    return _GO_NAMES.get(kind, kind)
