"""Derives what a request asks for from method, path and query; its label and field selectors."""

from collections.abc import Callable, Mapping
from urllib.parse import unquote

from msgspec import Struct

from watchword.api import selectors
from watchword.api.meta import Object
from watchword.api.selectors import FieldRequirement, InvalidLabelKey, InvalidLabelValue, LabelSelector, SelectorError
from watchword.apiserver.kinds.metadata import label_value, qualified_name
from watchword.apiserver.serving.errors import bad_request
from watchword.apiserver.serving.field_errors import invalid
from watchword.apiserver.serving.model import ApiError, RequestInfo

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})

Query = tuple[tuple[str, str], ...]


def read_request_info(method: str, path: str, query: Query = ()) -> RequestInfo:
    """Return the attributes that authorization and routing decide on.

    The path is decoded before it is cut, as upstream does: what is authorised is what is served.
    """
    parts = unquote(path).strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        return _resource_request(method, path, query, group="", parts=parts[1:])
    if parts[0] == "apis" and len(parts) >= 4:
        return _resource_request(method, path, query, group=parts[1], parts=parts[2:])
    return RequestInfo(verb=method.lower(), path=unquote(path))


def _resource_request(method: str, path: str, query: Query, *, group: str, parts: list[str]) -> RequestInfo:
    version, rest = parts[0], parts[1:]
    verb = _VERBS.get(method, "")
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    if not name and verb == "get":
        verb = "watch" if is_truthy(_first(query, "watch")) else "list"
    if not name and verb in {"list", "watch"}:
        name = _pinned_name(_first(query, "fieldSelector"))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(
        verb=verb,
        path=unquote(path),
        is_resource=True,
        group=group,
        version=version,
        resource=rest[0],
        subresource=rest[2] if len(rest) > 2 else "",
        namespace=namespace,
        name=name,
    )


def is_truthy(value: str | None) -> bool:
    """Whether a boolean query parameter is on; present without a value counts as on."""
    return value is not None and value.lower() not in {"false", "0"}


def _first(query: Query, name: str) -> str | None:
    return next((value for key, value in query if key == name), None)


def _pinned_name(selector: str | None) -> str:
    if not selector:
        return ""
    try:
        return parse_field_selector(selector).exact("metadata.name") or ""
    except ApiError:
        return ""  # the verb itself will refuse the selector


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
        return all((getters[each.path](obj) == each.value) is not each.negated for each in self.requirements)

    def require_known(self, getters: Mapping[str, FieldGetter]) -> None:
        for each in self.requirements:
            if each.path not in getters:
                told = f"field label not supported: {each.path}"
                if getters.keys() <= {"metadata.name", "metadata.namespace"}:
                    told = f'"{each.path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
                raise bad_request(told)


NO_FIELDS = FieldSelector()


def parse_field_selector(text: str) -> FieldSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text:
        return NO_FIELDS
    try:
        return FieldSelector(selectors.parse_field_selector(text))
    except SelectorError as refusal:
        raise bad_request(str(refusal)) from None


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
