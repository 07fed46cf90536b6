"""Label and field selectors of requests: which objects a list, a watch or a deletion means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from watchword.api import selectors
from watchword.api.meta import Object
from watchword.api.selectors import FieldRequirement, InvalidLabelKey, InvalidLabelValue, LabelSelector, SelectorError
from watchword.apiserver.errors import bad_request
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.kinds.metadata import label_value, qualified_name

FieldGetter = Callable[[Object], str]


class FieldSelector(Struct, frozen=True):
    """Requirements that must all hold; without any, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def exact(self, path: str) -> str | None:
        return next((each.value for each in self.requirements if not each.negated and each.path == path), None)

    def matches(self, obj: Object, getters: Mapping[str, FieldGetter]) -> bool:
        """Whether the object satisfies all; the fields must have been checked with `require_known`."""
        return all((_value(obj, each.path, getters) == each.value) is not each.negated for each in self.requirements)

    def require_known(self, getters: Mapping[str, FieldGetter], *, namespaced: bool) -> None:
        for each in self.requirements:
            if each.path == "metadata.name" or (each.path == "metadata.namespace" and namespaced):
                continue
            if each.path not in getters:
                raise bad_request(_unknown(each.path, getters))


def _unknown(path: str, getters: Mapping[str, FieldGetter]) -> str:
    if set(getters) - {"metadata.name", "metadata.namespace"} or not getters:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


NO_FIELDS = FieldSelector()


def parse_field_selector(text: str) -> FieldSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text:
        return NO_FIELDS
    try:
        return FieldSelector(selectors.parse_field_selector(text))
    except SelectorError as refusal:
        raise bad_request(str(refusal)) from None


def _value(obj: Object, path: str, getters: Mapping[str, FieldGetter]) -> str:
    if path == "metadata.name":
        return obj["metadata"].get("name") or ""
    if path == "metadata.namespace":
        return obj["metadata"].get("namespace") or ""
    return getters[path](obj)


EVERYTHING = LabelSelector()


def parse_label_selector(text: str) -> LabelSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text:
        return EVERYTHING
    try:
        return selectors.parse_label_selector(text)
    except InvalidLabelKey as refusal:
        raise bad_request(_worded("<nil>", refusal.key, qualified_name(refusal.key))) from None
    except InvalidLabelValue as refusal:
        raise bad_request(_worded(f"values[0][{refusal.key}]", refusal.value, label_value(refusal.value))) from None
    except SelectorError as refusal:
        raise bad_request(str(refusal)) from None


def _worded(path: str, value: str, complaints: list[str]) -> str:
    return f"unable to parse requirement: {invalid(path, value, '; '.join(complaints))}"
