"""Types that the packages of the control plane share: user, request, refusal, kind."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct, field

from watchword.api.http import Peer, Response, first_header
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.sensitive import HiddenFields
from watchword.apiserver.kinds.schema import Schema

Now = Callable[[], datetime]
"""The wall clock. Waiting goes through the event loop's own time."""
Entropy = Callable[[int], bytes]
"""Random bytes."""
Handler = Callable[["HandlerRequest"], Awaitable[Response]]
"""Answers a path or a subresource. Bodies: `bodies.decode_body`; answers: `negotiation.object_response`."""


class User(Struct, frozen=True):
    """The authenticated user; never taken from a body."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def without_empty(fields: Object) -> Object:
    """Return the fields that Go writes under `omitempty`: neither null nor zero nor empty."""
    return {name: value for name, value in fields.items() if value}


def user_info(user: User) -> Object:
    """Return a user as reviews, admission and certificate requests show it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return without_empty({"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra})


class RequestInfo(Struct, frozen=True):
    """What a request asks for, read from its method, path and query."""

    verb: str  # get list watch create update patch delete deletecollection, or the lower-case method for other paths
    path: str = ""
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class FieldError(Struct, frozen=True):
    """One error of one field, with Kubernetes' message."""

    path: str
    reason: str  # FieldValueRequired, FieldValueInvalid, FieldValueNotSupported, FieldValueForbidden, …
    message: str  # as printed after the path: `Invalid value: "x": must be …`
    is_last: bool = False  # it comes after all others, whichever step set it

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class ApiError(Exception):
    """A refusal that becomes a Status object; `serving.errors` has constructors for the common reasons."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.continue_token = ""  # with 410: where an inconsistent list may go on


class Column(Struct, frozen=True):
    """One column of a Table; `cell` computes it from the object and the present instant."""

    name: str
    cell: Callable[[Object, datetime], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Operation(Struct, frozen=True):
    """One write on its way to the store, as admission and strategies see it."""

    verb: str  # create update delete
    kind: ResourceKind
    key: ObjectKey
    user: User
    new: Object | None  # may be changed in place by strategies and admission
    old: Object | None
    subresource: str = ""
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)  # become Warning headers of the response
    options: Object = field(default_factory=dict)  # CreateOptions, UpdateOptions or DeleteOptions as they were sent
    annotations: dict[str, str] = field(default_factory=dict)  # of the audit event


Hook = Callable[[Operation], None]
"""Changes `operation.new` in place or raises ApiError."""

Validator = Callable[[Operation], list[FieldError]]

Admit = Callable[[Operation], Awaitable[None]]
"""One admission step: raises ApiError to refuse; mutating steps also change `operation.new` in place.

Order of a write: decode, default, mutating admission, `prepare` hooks, validation, validating admission, store.
"""


class ResourceKind(Struct, frozen=True):
    """One served resource with everything the generic verbs need to know about it."""

    resource: Resource
    schema_source: Schema | Callable[[], Schema]  # the schema, or how it is drawn when it is first needed
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    subresources: tuple[str, ...] = ()  # status, scale, approval, finalize, token …
    columns: tuple[Column, ...] = ()
    selectable_fields: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    deprecation: str = ""  # a warning that is sent with every response
    custom: bool = False  # from a CRD: no strategic patch, resourceVersion required on update
    unconditional_update: bool = False
    create_on_update: bool = False
    returns_deleted_object: bool = False
    has_generation: bool = False
    has_owners: bool = True  # False: managedFields are not tracked, as kube-apiserver tracks none of this kind
    prepare: tuple[Hook, ...] = ()  # fill and drop fields before validation
    validate: tuple[Validator, ...] = ()
    storage_version: str = ""  # the version objects are stored in, when the kind has several
    # events.k8s.io/v1 events are stored as core v1 events: the resource they live in and how to cross over
    stored_as: Resource | None = None
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    default: tuple[Callable[[Object], None], ...] = ()  # defaults that a schema cannot express; run on decoded bodies
    begin_deletion: Callable[[Object], None] | None = None  # changes, once, the object that deletion marks
    stored: bool = True  # False: answered and not stored (reviews); a handler serves them

    @property
    def schema(self) -> Schema:
        schema_source = self.schema_source
        return schema_source if isinstance(schema_source, Schema) else schema_source()


class Registry(Protocol):
    """The store behind the verbs, for the control plane's own parts: no authentication, no authorization."""

    def kind(self, group: str, version: str, plural: str) -> ResourceKind | None: ...

    def kinds(self) -> Sequence[ResourceKind]: ...

    def get(self, resource: Resource, key: ObjectKey) -> Object | None: ...

    def list(self, resource: Resource, namespace: str = "") -> list[Object]: ...

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Store a new object through defaulting and validation."""

    async def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace a stored object; its resourceVersion must match."""

    async def delete(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Begin or finish the deletion of an object, as finalizers, grace and `propagation` allow."""

    def subscribe(self, resource: Resource, listener: Callable[[str, Object], None]) -> Callable[[], None]:
        """Call `listener(type, object)` after each committed change; return how to stop.

        Objects already present come first, as ADDED. All listeners see one object: none may change it.
        """


Authenticate = Callable[["HandlerRequest"], Awaitable[User | None]]
"""Says who asks; None: no credential was shown (anonymous). Raises the 401 for a bad credential."""


def decode_base64(text: str | None) -> bytes:
    """Return a value of a Secret; empty when it is not base64."""
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        return b""


class Service(Protocol):
    """A part of the control plane that runs beside requests, such as a controller."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class HandlerRequest(HiddenFields, frozen=True):
    """An authenticated request: what is requested, and the user."""

    hidden = ("body", "peer")

    info: RequestInfo
    method: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes
    peer: Peer = field(default_factory=Peer)
    user: User = field(default_factory=lambda: User("system:anonymous", groups=("system:unauthenticated",)))
    annotations: dict[str, str] = field(default_factory=dict)  # of the audit event

    def header(self, name: str) -> str:
        return first_header(self.headers, name)

    def parameter(self, name: str) -> str:
        for key, value in self.query:
            if key == name:
                return value
        return ""
