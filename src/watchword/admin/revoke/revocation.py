"""One revocation: what it does, on which object, and how its effect is proved."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from watchword.admin.errors import AdminError, InvalidInput
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.api.validation import format_duration
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, review_token, who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, Unauthorized
from watchword.runtime.event_recorder import EventRecorder

ASK_EVERY = 0.25  # seconds


class RefusalProbe(Protocol):
    """Finds out whether one holder is refused by now."""

    @property
    def holder(self) -> str: ...

    async def is_refused(self) -> bool:
        """Ask the server; raises `KubeError` when it gives no answer."""
        ...


class Refusal(Struct, frozen=True):
    """After how many seconds a holder was refused, or why that is not known."""

    holder: str
    seconds: float | None = None  # None: it was not refused, or that was not measured
    error: str = ""
    before: bool = False  # it was refused before the revocation, which so shows nothing of its effect

    @property
    def is_unproved(self) -> bool:
        return self.seconds is None and not self.before


class RequestProbe(Struct, frozen=True):
    """Sends requests with the credential itself, each over a connection of its own."""

    holder: str
    connect: Callable[[], Client]

    async def is_refused(self) -> bool:
        try:
            async with self.connect() as client:
                await who_am_i(client)
        except Unauthorized:
            return True
        return False


class TokenReviewProbe(Struct, frozen=True):
    """Asks the API server about the token itself."""

    holder: str
    client: Client
    token: Sensitive[str]
    audiences: tuple[str, ...] = ()

    async def is_refused(self) -> bool:
        return await review_token(self.client, self.token, audiences=self.audiences) is None


class AccessProbe(Struct, frozen=True):
    """Asks whether an identity is still allowed what was bound to it."""

    holder: str
    client: Client
    who: UserIdentity
    accesses: tuple[ResourceAccess, ...]

    async def is_refused(self) -> bool:
        answers = [await may(self.client, self.who, access) for access in self.accesses]
        return not any(answers)


class AbsenceProbe(Struct, frozen=True):
    """Asks whether an object is deleted whose absence makes its tokens invalid."""

    holder: str
    client: Client
    resource: Resource
    key: ObjectKey
    uid: str

    async def is_refused(self) -> bool:
        found = await self.client.find(self.resource, self.key)
        return found is None or uid_of(found) != self.uid


async def split_refused(probes: Sequence[RefusalProbe]) -> tuple[list[RefusalProbe], list[Refusal]]:
    """Ask before a revocation: return the probes that can show its effect, and the holders refused already."""

    async def is_refused(probe: RefusalProbe) -> bool:
        try:
            return await probe.is_refused()
        except KubeError:
            return False  # the measurement says why it is not known

    answers = list(zip(probes, await asyncio.gather(*map(is_refused, probes)), strict=True))
    accepted = [probe for probe, refused in answers if not refused]
    return accepted, [Refusal(probe.holder, before=True) for probe, refused in answers if refused]


class RefusalMeasurement(Struct, frozen=True):
    """Asks every probe until its holder is refused, each for at most so long."""

    within: timedelta
    since: float  # of the event loop's clock: when the revocation began
    repeat: Callable[[], Awaitable[None]] | None = None  # what to do again while a holder is still accepted

    async def run(self, probes: Sequence[RefusalProbe]) -> list[Refusal]:
        return list(await asyncio.gather(*(self._ask(probe) for probe in probes)))

    async def _ask(self, probe: RefusalProbe) -> Refusal:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.within.total_seconds()):
                while not await probe.is_refused():
                    await asyncio.sleep(ASK_EVERY)
                    if self.repeat is not None:
                        await self.repeat()
        except TimeoutError:
            return Refusal(probe.holder, error=f"still accepted after {format_duration(self.within)}")
        except KubeError as error:
            return Refusal(probe.holder, error=str(error))
        return Refusal(probe.holder, loop.time() - self.since)


class RevocationTarget(Struct, frozen=True):
    """The credential to revoke: its kind, and its name as the command line spells it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


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


EVENT_PATIENCE = timedelta(seconds=10)
REASON = "CredentialRevoked"


class RevocationResult(Struct, frozen=True):
    """Result of one revocation; without `changed` there was nothing to do."""

    revocation: Revocation
    changed: bool = False
    refusals: tuple[Refusal, ...] = ()
    error: str = ""  # why it was not carried out

    @property
    def unproved(self) -> list[Refusal]:
        return [refusal for refusal in self.refusals if refusal.is_unproved]


class Revoker(Struct, frozen=True):
    """Revokes what was planned."""

    events: EventRecorder
    administrator: str  # as the hub authenticates it
    wait: timedelta | None = None  # None: return without waiting for the refusal

    async def run(self, planned: Sequence[Revocation]) -> list[RevocationResult]:
        """Revoke all at the same time: the problem of one delays no other."""
        return list(await asyncio.gather(*(self._revoke(each) for each in planned)))

    async def _revoke(self, revocation: Revocation) -> RevocationResult:
        probes, before = await split_refused(revocation.probes if self.wait is not None else ())
        since = asyncio.get_running_loop().time()
        try:
            changed = await revocation.act()
        except (KubeError, AdminError) as error:
            return RevocationResult(revocation, error=str(error))
        if changed:
            self.events.normal(revocation.object, REASON, f"{self.administrator} revoked {revocation.target}")
        measurement = RefusalMeasurement(self.wait or timedelta(0), since, revocation.repeat)
        refusals, _ = await asyncio.gather(measurement.run(probes), self.events.flush(EVENT_PATIENCE))
        return RevocationResult(revocation, changed, (*before, *refusals))
