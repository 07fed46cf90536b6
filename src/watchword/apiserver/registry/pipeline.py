"""What every write passes between the client and the store."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver.errors import invalid
from watchword.apiserver.fieldmanager.update import track_update
from watchword.apiserver.model import Admit, ApiError, FieldError, Now, Operation, ResourceKind, User
from watchword.apiserver.registry.object_storage import KindTable, ObjectStorage
from watchword.apiserver.registry.system_fields import Entropy
from watchword.apiserver.schema.prune import apply_defaults, prune
from watchword.apiserver.schema.validate import validate
from watchword.apiserver.watch import BOOKMARK_EVERY

Strictness = Literal["Ignore", "Warn", "Strict"]

SYSTEM = User("system:apiserver", groups=("system:masters",))
MOST_COMPLAINTS = 100  # as upstream: a body made of mistakes is not worth a list of them


class WriteRequest(Struct, frozen=True):
    """One writing request, past authorization."""

    user: User = SYSTEM
    manager: str = "kube-apiserver"  # as upstream calls what it writes by itself
    dry_run: bool = False
    strictness: Strictness = "Ignore"
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
        return Operation(
            verb,
            kind,
            key,
            self.user,
            new=new,
            old=old,
            subresource=subresource,
            dry_run=self.dry_run,
            warnings=self.warnings,
            options=self.options,
            annotations=self.annotations,
        )


class VerbResult(Struct, frozen=True):
    """The outcome of a verb: the encoded object and the code to send."""

    body: bytes
    status: int = 200


class ManagedFieldsTracker(Struct, frozen=True):
    """Records the fields that a write changed under its manager's name."""

    now: Now
    _empty: dict[Resource, Object | None] = field(default_factory=dict)

    def track(self, operation: Operation, call: WriteRequest) -> None:
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
            now=self.now(),
            subresource=operation.subresource,
            reset=reset_fields(kind, operation.subresource),
            empty=self._empty_of(kind),
        )

    def _empty_of(self, kind: ResourceKind) -> Object | None:
        """Return a typed kind's object without any field set: some fields are written even then."""
        if kind.custom or not kind.default:
            return None
        if kind.resource not in self._empty:
            empty: Object = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
            kind.default[0](empty)
            self._empty[kind.resource] = empty
        return self._empty[kind.resource]


def reset_fields(kind: ResourceKind, subresource: str) -> frozenset[str]:
    """Return the top-level fields that an endpoint does not take from the client."""
    return frozenset({"status"} if not subresource and "status" in kind.subresources else ())


class Pipeline(Struct, frozen=True):
    """Admission and validation, in Kubernetes' order."""

    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()

    async def mutate(self, operation: Operation) -> None:
        for admit in self.mutating:
            await admit(operation)
        for prepare in operation.kind.prepare:
            prepare(operation)

    async def validate_write(self, operation: Operation) -> None:
        errors = find_errors(operation)
        if errors:
            kind = operation.kind
            raise invalid(kind.stored_as or kind.resource, operation.key.name, errors)
        await self.admit(operation)

    async def admit(self, operation: Operation) -> None:
        """Run validating admission only: all that a deletion passes."""
        for admit in self.validating:
            await admit(operation)


def find_errors(operation: Operation) -> list[FieldError]:
    kind, new, old = operation.kind, operation.new, operation.old
    errors: list[FieldError] = []
    if kind.custom:
        errors.extend(validate(new, kind.schema) if old is None else validate(new, kind.schema, old=old))
    for check in kind.validate:
        errors.extend(check(operation))
    # This one comes last, whichever step set it.
    return sorted(errors, key=lambda error: "some validation rules were not checked" in error.message)


class VerbDependencies(Struct, frozen=True):
    """Store, kinds, pipeline, clock and randomness of one control plane."""

    objects: ObjectStorage
    kinds: KindTable
    pipeline: Pipeline
    ownership: ManagedFieldsTracker
    now: Now
    entropy: Entropy
    bookmark_every: float = BOOKMARK_EVERY  # seconds


def prune_and_default(kind: ResourceKind, obj: Object, call: WriteRequest, duplicates: list[str] | None = None) -> None:
    """Prune and default in place; unknown fields become warnings or a refusal, as requested."""
    unknown = prune(obj, kind.schema, in_order=not kind.custom)
    if call.strictness != "Ignore" and (unknown or duplicates):
        told = [f'unknown field "{path}"' for path in unknown[:MOST_COMPLAINTS]]
        report_field_problems(kind, call, told, (duplicates or [])[:MOST_COMPLAINTS])
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


def report_field_problems(kind: ResourceKind, call: WriteRequest, unknown: list[str], duplicates: list[str]) -> None:
    """Warn about fields, or refuse them with 400 when strict validation was requested."""
    twice = [f'duplicate field "{path}"' for path in duplicates]
    complaints = [*twice, *unknown] if kind.custom else [*unknown, *twice]  # as kube-apiserver's two decoders do
    if call.strictness == "Strict":
        raise StrictDecoding(kind, f"strict decoding error: {', '.join(complaints)}")
    call.warnings.extend(complaints)
