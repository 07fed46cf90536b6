"""One revocation: what it does, on which object, and how its effect is proved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from watchword.admin.errors import InvalidInput
from watchword.admin.revoke.refusals import RefusalProbe
from watchword.api.hidden_fields import HiddenFields
from watchword.api.meta import Object, ObjectKey
from watchword.drivers.catalog import CATALOG, Catalog
from watchword.kube.client import Client
from watchword.runtime.clock import Clock


class RevocationTarget(Struct, frozen=True):
    """The credential to revoke: its kind, and its name as the command line spells it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class RevocationContext(Struct, frozen=True, kw_only=True):
    """What the kinds of credentials use to plan a revocation."""

    client: Client  # of the hub, or of the cluster for pull secrets
    clock: Clock
    catalog: Catalog = CATALOG


class Revocation(HiddenFields, frozen=True, kw_only=True):
    """A revocation that was planned; planning changes nothing."""

    hidden = ("object",)

    target: RevocationTarget
    object: Object  # the Event is about it
    actions: tuple[str, ...]  # what is done, for people
    consequence: str = ""  # what an administrator has to know afterwards
    act: Callable[[], Awaitable[bool]]  # returns whether anything was changed; a second call changes nothing
    probes: tuple[RefusalProbe, ...] = ()
    repeat: Callable[[], Awaitable[None]] | None = None  # what to do again while a holder is still accepted


def parse_key(name: str, form: str) -> ObjectKey:
    """Return the key in `first/second`; `InvalidInput` for any other form."""
    first, slash, second = name.partition("/")
    if not (first and slash and second) or "/" in second:
        raise InvalidInput(f"{name!r} is not {form}: give both parts, joined by a slash")
    return ObjectKey(first, second)
