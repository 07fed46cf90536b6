"""The context of a write: user, field manager, strictness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field

from watchword.apiserver.model import User

Strictness = Literal["Ignore", "Warn", "Strict"]

SYSTEM = User("system:apiserver", groups=("system:masters",))


class WriteRequest(Struct, frozen=True):
    """One writing request, past authorization."""

    user: User = SYSTEM
    manager: str = "kube-apiserver"  # as upstream calls what it writes by itself
    dry_run: bool = False
    strictness: Strictness = "Ignore"
    force: bool = False  # server-side apply: take fields from other managers
    applied: bool = False  # managedFields already contain the outcome of an apply
    warnings: list[str] = field(default_factory=list)
    may_create: Callable[[], None] = lambda: None  # raises 403; called when an update or apply would create


class VerbResult(Struct, frozen=True):
    """The outcome of a verb: the encoded object and the code to send."""

    body: bytes
    status: int = 200
