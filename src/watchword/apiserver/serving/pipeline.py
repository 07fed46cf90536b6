"""What every write passes between the client and the store, and the options of requests."""

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.selectors import LabelSelector
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.schema import apply_defaults, prune
from watchword.apiserver.kinds.schema_validation import validate
from watchword.apiserver.kinds.typed import typed
from watchword.apiserver.serving import requestinfo
from watchword.apiserver.serving.errors import bad_request, invalid_kind, quote
from watchword.apiserver.serving.errors import invalid as invalid_object
from watchword.apiserver.serving.field_errors import forbidden, invalid, not_supported, required, too_long
from watchword.apiserver.serving.managed_fields import track_update
from watchword.apiserver.serving.model import (
    Admit,
    ApiError,
    Entropy,
    FieldError,
    HandlerRequest,
    Now,
    Operation,
    ResourceKind,
    User,
    without_empty,
)
from watchword.apiserver.serving.object_storage import KindTable, ObjectStorage
from watchword.apiserver.serving.watch import BOOKMARK_EVERY

SYSTEM = User("system:apiserver", groups=("system:masters",))
MOST_COMPLAINTS = 100  # as upstream: a body made of mistakes is not worth a list of them


class WriteRequest(Struct, frozen=True):
    """One writing request, past authorization."""

    user: User = SYSTEM
    manager: str = "kube-apiserver"  # as upstream calls what it writes by itself
    dry_run: bool = False
    strictness: str = "Ignore"  # or Warn, or Strict
    force: bool = False  # server-side apply: take fields from other managers
    applied: bool = False  # managedFields already contain the outcome of an apply
    warnings: list[str] = field(default_factory=list)
    options: Object = field(default_factory=dict)  # as the client sent them
    annotations: dict[str, str] = field(default_factory=dict)  # of the audit event
    may_create: Callable[[], None] = lambda: None  # raises 403; called when an update or apply would create

    def operation(
        self,
        verb: str,
        kind: ResourceKind,
        key: ObjectKey,
        *,
        new: Object | None,
        old: Object | None,
        subresource: str = "",
    ) -> Operation:
        operation = Operation(verb, kind, key, self.user, new, old, subresource, dry_run=self.dry_run)
        return replace(operation, warnings=self.warnings, options=self.options, annotations=self.annotations)


class VerbResult(Struct, frozen=True):
    """The outcome of a verb: the encoded object and the code to send."""

    body: bytes
    status: int = 200


def track_managed_fields(operation: Operation, call: WriteRequest, now: Now) -> None:
    """Update `metadata.managedFields` of the new object in place, before the server adds fields of its own."""
    kind, new = operation.kind, operation.new
    if call.applied or new is None:
        return
    if not kind.has_owners:
        new.get("metadata", {}).pop("managedFields", None)
        return
    track_update(
        operation.old,
        new,
        kind.schema,
        manager=call.manager,
        api_version=kind.resource.api_version,
        now=now(),
        subresource=operation.subresource,
        reset=reset_fields(kind, operation.subresource),
        empty={} if kind.custom else _empty_of(kind.resource),
    )


@cache
def _empty_of(resource: Resource) -> Object:
    """Return a typed kind's object without any field set: some fields are written even then."""
    return typed(has_defaults=False).conform(message_of(resource.group, resource.version, resource.kind), {})


def reset_fields(kind: ResourceKind, subresource: str) -> frozenset[str]:
    """Return the top-level fields that an endpoint does not take from the client."""
    return frozenset({"status"} if not subresource and "status" in kind.subresources else ())


class VerbDependencies(Struct, frozen=True):
    """Store, kinds, clock, randomness and admission of one control plane."""

    objects: ObjectStorage
    kinds: KindTable
    now: Now
    entropy: Entropy
    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()
    bookmark_every: float = BOOKMARK_EVERY  # seconds

    async def mutate(self, operation: Operation) -> None:
        for admit in self.mutating:
            await admit(operation)
        for prepare in operation.kind.prepare:
            prepare(operation)

    async def validate_write(self, operation: Operation) -> None:
        kind, new, old = operation.kind, operation.new, operation.old
        errors: list[FieldError] = []
        if kind.custom:
            errors.extend(validate(new, kind.schema) if old is None else validate(new, kind.schema, old=old))
        for check in kind.validate:
            errors.extend(check(operation))
        if errors:
            errors.sort(key=lambda error: error.is_last)
            raise invalid_object(kind.stored_as or kind.resource, operation.key.name, errors)
        for admit in self.validating:
            await admit(operation)


def prune_and_default(kind: ResourceKind, obj: Object, call: WriteRequest, duplicates: list[str] | None = None) -> None:
    """Prune and default in place; unknown fields become warnings or a refusal, as requested."""
    unknown = prune(obj, kind.schema, in_order=not kind.custom)
    if call.strictness != "Ignore" and (unknown or duplicates):
        told = [f'unknown field "{path}"' for path in unknown[:MOST_COMPLAINTS]]
        twice = [f'duplicate field "{path}"' for path in (duplicates or [])[:MOST_COMPLAINTS]]
        complaints = [*twice, *told] if kind.custom else [*told, *twice]  # as kube-apiserver's two decoders do
        if call.strictness == "Strict":
            raise StrictDecoding(kind, f"strict decoding error: {', '.join(complaints)}")
        call.warnings.extend(complaints)
    for fill in kind.default:
        fill(obj)
    if kind.custom:
        apply_defaults(obj, kind.schema)


class StrictDecoding(ApiError):
    """400: the body has fields that its kind does not know, or names one twice."""

    def __init__(self, kind: ResourceKind, complaint: str) -> None:
        resource = kind.resource
        head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        super().__init__(400, "BadRequest", f"{head}{complaint}")
        self.complaint = complaint


_LONGEST_MANAGER = 128
_LARGEST = 2**63 - 1


class ListOptions(Struct, frozen=True):
    """The options of a list or a watch."""

    labels: LabelSelector = requestinfo.EVERYTHING
    fields: requestinfo.FieldSelector = requestinfo.NO_FIELDS
    watch: bool = False
    bookmarks: bool = False
    resource_version: str = ""
    match: str = ""  # resourceVersionMatch
    timeout_seconds: int | None = None
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None


def read_list_options(request: HandlerRequest, *, watch: bool | None = None) -> ListOptions:
    """Read and check; 400 for values that cannot be read, 422 for combinations that make no sense."""
    said = dict(reversed(request.query))
    initial = said.get("sendInitialEvents")
    timeout = said.get("timeoutSeconds")
    options = ListOptions(
        labels=requestinfo.parse_label_selector(said.get("labelSelector", "")),
        fields=requestinfo.parse_field_selector(said.get("fieldSelector", "")),
        watch=requestinfo.is_truthy(said.get("watch")) if watch is None else watch,
        bookmarks=requestinfo.is_truthy(said.get("allowWatchBookmarks")),
        resource_version=said.get("resourceVersion", ""),
        match=said.get("resourceVersionMatch", ""),
        timeout_seconds=parse_integer(timeout) if timeout else None,
        limit=max(parse_integer(said.get("limit") or "0"), 0),
        continue_token=said.get("continue", ""),
        send_initial_events=requestinfo.is_truthy(initial) if initial else None,
    )
    errors = _watch_errors(options) if options.watch else _list_errors(options)
    if errors:
        raise invalid_kind("meta.k8s.io", "ListOptions", "", errors)
    return options


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    path, match = "resourceVersionMatch", options.match
    if match:
        if not options.resource_version:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in {"Exact", "NotOlderThan"}:
            errors.append(not_supported(path, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.resource_version == "0":
            errors.append(forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    path, match = "resourceVersionMatch", options.match
    if options.send_initial_events is not None and match != "NotOlderThan":
        errors.append(forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if options.send_initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(forbidden(path, detail))
        if match != "NotOlderThan":
            errors.append(not_supported(path, match, ("NotOlderThan",)))
    if options.continue_token:  # a watch without a match has one by itself: it begins with the current state
        errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return errors


def read_write_request(request: HandlerRequest, *, options_kind: str, apply: bool = False) -> WriteRequest:
    errors: list[FieldError] = []
    dry_run = parse_dry_run([value for name, value in request.query if name == "dryRun"], errors)
    manager = request.parameter("fieldManager")
    if apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    errors.extend(_manager_errors(manager))
    strictness = request.parameter("fieldValidation")
    if strictness not in {"", "Ignore", "Warn", "Strict"}:
        errors.append(not_supported("fieldValidation", strictness, ("", "Ignore", "Strict", "Warn")))
    force = request.parameter("force")
    if force and not apply:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid_kind("meta.k8s.io", options_kind, "", errors)
    return WriteRequest(
        user=request.user,
        manager=manager or request.header("user-agent").partition("/")[0][:_LONGEST_MANAGER] or "unknown",
        dry_run=dry_run,
        strictness=strictness or "Warn",
        force=requestinfo.is_truthy(force) if force else False,
        options=without_empty(
            {"dryRun": ["All"] if dry_run else [], "fieldManager": manager, "fieldValidation": strictness}
        ),
        annotations=request.annotations,
    )


def parse_dry_run(said: Any, errors: list[FieldError]) -> bool:
    """Whether nothing is to be stored; any value but All is an error."""
    if not said:
        return False
    if not isinstance(said, list) or any(value != "All" for value in said):
        errors.append(not_supported("dryRun", said, ("All",)))
        return False
    return True


def parse_integer(text: str) -> int:
    """Read a decimal integer; 400 otherwise."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or abs(int(text)) > _LARGEST:
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    return int(text)


def _manager_errors(manager: str) -> list[FieldError]:
    if len(manager.encode()) > _LONGEST_MANAGER:
        return [too_long("fieldManager", _LONGEST_MANAGER)]
    for position, char in enumerate(manager):
        if not char.isprintable():
            place = len(manager[:position].encode())
            return [invalid("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {place})")]
    return []
