"""The kind-specific part of a write: body, defaults, preparation, validation."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.serving.model import FieldError, Operation, ResourceKind, User


@dataclass(frozen=True)
class KindHarness:
    """Sends bodies through one kind's hooks, without store or HTTP."""

    kinds: dict[tuple[str, str], ResourceKind] = field(
        default_factory=lambda: {(kind.resource.group, kind.resource.kind): kind for kind in BUILTINS}
    )

    def write(
        self, name: str, body: Object, *, old: Object | None = None, subresource: str = ""
    ) -> tuple[Object, list[str]]:
        """Return the object as it would be stored, and what is wrong with it."""
        new, errors = self.judged(name, body, old=old, subresource=subresource)
        return new, [str(error) for error in errors]

    def judged(
        self, name: str, body: Object, *, old: Object | None = None, subresource: str = ""
    ) -> tuple[Object, list[FieldError]]:
        kind = self.kind(name)
        new: dict[str, Any] = deepcopy(body)
        new.setdefault("metadata", {}).setdefault("name", "thing")
        for fill in kind.default:
            fill(new)
        if kind.resource.namespaced:
            new["metadata"].setdefault("namespace", "default")
        if old is None:
            new["metadata"].setdefault("uid", "uid-1")
        operation = Operation(
            "create" if old is None else "update", kind, ObjectKey.of(new), User("me"), new, old, subresource
        )
        for prepare in kind.prepare:
            prepare(operation)
        return new, [error for validate in kind.validate for error in validate(operation)]

    def kind(self, name: str) -> ResourceKind:
        kind, _, group = name.partition(".")
        return self.kinds[group, kind]


@pytest.fixture(scope="session")
def kind_harness() -> KindHarness:
    return KindHarness()
