"""Brings a body into the form of its kind: known fields only, defaults filled in."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.write_request import WriteRequest
from watchword.apiserver.schema.defaults import apply_defaults
from watchword.apiserver.schema.prune import prune

MOST_COMPLAINTS = 100  # as upstream: a body made of mistakes is not worth a list of them


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
