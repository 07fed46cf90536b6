"""What every write passes between the client and the store."""

from __future__ import annotations

from msgspec import Struct

from watchword.apiserver.errors import invalid
from watchword.apiserver.model import Admit, FieldError, Operation
from watchword.apiserver.schema.validate import validate


class Pipeline(Struct, frozen=True):
    """Admission and validation, in Kubernetes' order."""

    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()

    async def mutate(self, operation: Operation) -> None:
        """Let mutating admission change the object, then the kind prepare it."""
        for admit in self.mutating:
            await admit(operation)
        for prepare in operation.kind.prepare:
            prepare(operation)

    async def validate_write(self, operation: Operation) -> None:
        """Refuse invalid objects with 422, and what validating admission refuses."""
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
    """Return every broken rule of the new object."""
    kind, new, old = operation.kind, operation.new, operation.old
    errors: list[FieldError] = []
    if kind.custom:
        errors.extend(validate(new, kind.schema) if old is None else validate(new, kind.schema, old=old))
    for check in kind.validate:
        errors.extend(check(operation))
    return sorted(errors, key=lambda error: _UNCHECKED in error.message)  # last, whichever step set it


_UNCHECKED = "some validation rules were not checked"
