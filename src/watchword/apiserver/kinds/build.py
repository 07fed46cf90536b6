"""How one row of the catalogue becomes a served kind."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from msgspec import Struct

from watchword.api import resources
from watchword.api.meta import Object, Resource
from watchword.apiserver.kinds.columns import PLAIN, at
from watchword.apiserver.kinds.messages import kind_schema, messages
from watchword.apiserver.kinds.metadata import NameRule, any_name, dns_subdomain, metadata_validator
from watchword.apiserver.kinds.typed import typed
from watchword.apiserver.serving.model import Column, Hook, Operation, ResourceKind, Validator


class LazyFunction(Struct, frozen=True):
    """A function whose module is imported by the first call.

    For wiring only: a module that merely uses another imports it. A test resolves all of them.
    """

    module: str
    name: str

    def __call__(self, *arguments: Any) -> Any:
        return self.resolve()(*arguments)

    def resolve(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found


def builtin(
    resource: Resource,
    *,
    name: NameRule = dns_subdomain,
    default: tuple[Callable[[Object], None], ...] = (),
    validate: tuple[Validator, ...] = (),
    fields: Mapping[str, Callable[[Object], str]] | None = None,
    columns: tuple[Column, ...] = PLAIN,
    **served: Any,
) -> ResourceKind:
    """Return the kind of a resource; `served` are further fields of ResourceKind."""
    message = message_of(resource.group, resource.version, resource.kind)
    names = ("metadata.name", "metadata.namespace") if resource.namespaced else ("metadata.name",)
    return ResourceKind(
        resource=resource,
        schema_source=partial(kind_schema, message),
        singular=resource.kind.lower(),
        columns=columns,
        selectable_fields={**selectable(*names), **(fields or {})},
        default=(typed().hook(resource, message), *default),
        validate=(metadata_validator(name), *validate),
        **served,
    )


def message_of(group: str, version: str, kind: str) -> str:
    """Return the full name of a kind's message; raises KeyError when no table describes it."""
    if group == "apiextensions.k8s.io":
        name = f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"
    else:
        name = f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"
    if name not in messages().written:
        raise KeyError(name)
    return name


def compared(value: Any) -> str:
    """Return the text that a field selector compares: empty when absent, `true` and `false` for booleans."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def selectable(*paths: str) -> dict[str, Callable[[Object], str]]:
    return {path: _field_value(path) for path in paths}


def _field_value(path: str) -> Callable[[Object], str]:
    return lambda obj: compared(at(obj, path))


def separate_status(resource: Resource, *, on_create: bool = True) -> Hook:
    """Return the hook that gives an object the empty status until its own endpoint sets another."""
    message = message_of(resource.group, resource.version, resource.kind)

    def set_empty_status(operation: Operation) -> None:
        new, old = operation.new, operation.old
        needs_empty_status = on_create if old is None else "status" not in old and not operation.subresource
        if new is not None and needs_empty_status:
            new["status"] = typed().conform(message, {})["status"]

    return set_empty_status


TOKEN_REQUESTS = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")


def _review_kind(resource: Resource) -> ResourceKind:
    return builtin(resource, name=any_name, verbs=("create",), stored=False)


TOKEN_REQUEST = _review_kind(TOKEN_REQUESTS)  # served as a subresource of service accounts alone
REVIEWS = {
    resource: _review_kind(resource)
    for resource in (
        resources.TOKEN_REVIEWS,
        resources.SELF_SUBJECT_REVIEWS,
        resources.SUBJECT_ACCESS_REVIEWS,
        resources.SELF_SUBJECT_ACCESS_REVIEWS,
        resources.LOCAL_SUBJECT_ACCESS_REVIEWS,
        resources.SELF_SUBJECT_RULES_REVIEWS,
    )
}
