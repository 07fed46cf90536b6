"""Whatever happens to a credential, its Secret holds one again that its server honours: for every pillar."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tests.credentials.pillars import (
    LIFE,
    PILLARS,
    JumpingClock,
    Pillar,
    Registration,
    certificate_in,
    change_signer,
    credential_of,
)

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, labels_of, uid_of
from watchword.api.resources import SECRETS
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # in real time it would take hours

JUNK = base64.b64encode(b'{"junk": {}}').decode()  # servers refuse pull secrets that are no JSON
WITHIN = timedelta(minutes=15)


@pytest.fixture
async def pillar(request: pytest.FixtureRequest, private_plane: Plane) -> AsyncIterator[Pillar]:
    async with PILLARS[request.param](private_plane) as found:
        await found.prepare()
        yield found


every_pillar = pytest.mark.parametrize("pillar", list(PILLARS), indirect=True)


async def honoured(
    pillar: Pillar, is_so: Callable[[Object], bool] = lambda _: True, *, within: timedelta = WITHIN
) -> Object:
    """Wait until the Secret holds a credential that its server honours, and is so."""
    async with asyncio.timeout(within.total_seconds()):
        while True:
            secret = await pillar.find()
            if secret is not None and is_so(secret) and await pillar.is_honoured(secret):
                return secret
            await asyncio.sleep(1)  # virtual: what the server says of a credential is no event


def differs_from(other: Object) -> Callable[[Object], bool]:
    return lambda secret: credential_of(secret) != credential_of(other)


@every_pillar
async def test_credential_is_obtained(pillar: Pillar) -> None:
    await pillar.start()

    await honoured(pillar)


@every_pillar
async def test_deleted_secret_comes_back_with_a_credential(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)

    await pillar.plane.client().delete(SECRETS, ObjectKey.of(before))

    await honoured(pillar, lambda secret: uid_of(secret) != uid_of(before))


@every_pillar
async def test_each_field_of_the_secret_that_is_changed_is_restored(pillar: Pillar) -> None:
    await _damage_each_field(pillar, JUNK)


@pytest.mark.parametrize("pillar", sorted(PILLARS.keys() - {"pull secret"}), indirect=True)  # servers refuse it there
async def test_each_field_of_the_secret_that_is_removed_is_restored(pillar: Pillar) -> None:
    await _damage_each_field(pillar, None)


async def _damage_each_field(pillar: Pillar, value: str | None) -> None:
    await pillar.start()
    before = await honoured(pillar)
    for name in credential_of(before):
        await pillar.plane.client().patch(SECRETS, ObjectKey.of(before), {"data": {name: value}})

        await honoured(pillar, lambda secret, name=name: credential_of(secret).get(name) not in (None, JUNK))  # type: ignore[misc]  # now


@pytest.mark.parametrize("pillar", ["add-on token", "add-on certificate", "managed account"], indirect=True)
async def test_each_label_of_the_secret_is_restored(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)

    assert labels_of(before)
    for name, text in labels_of(before).items():
        await pillar.plane.client().patch(SECRETS, ObjectKey.of(before), {"metadata": {"labels": {name: None}}})

        await honoured(pillar, lambda secret, name=name, text=text: labels_of(secret).get(name) == text)  # type: ignore[misc]  # now


@pytest.mark.parametrize("pillar", ["managed account", "pull secret"], indirect=True)
async def test_owner_of_the_secret_is_restored(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)
    owners = before["metadata"].get("ownerReferences")
    assert owners

    await pillar.plane.client().patch(SECRETS, ObjectKey.of(before), {"metadata": {"ownerReferences": None}})

    await honoured(pillar, lambda secret: secret["metadata"].get("ownerReferences") == owners)


@every_pillar
async def test_credential_of_a_subject_that_changed_is_replaced(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)

    await pillar.change_subject()

    await honoured(pillar, differs_from(before))


@every_pillar
async def test_credential_that_its_server_refuses_is_replaced(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)

    await pillar.refuse()

    assert not await pillar.is_honoured(before)
    await honoured(pillar, differs_from(before))


@pytest.mark.parametrize("pillar", ["add-on token", "managed account", "pull secret"], indirect=True)
async def test_credential_is_honoured_throughout_a_rotation_of_the_signing_key(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)

    await change_signer(pillar)

    assert await pillar.is_honoured(before)
    for _ in range(30):
        await asyncio.sleep(60)
        await honoured(pillar, within=timedelta(seconds=1))
    await pillar.refuse()
    await honoured(pillar, differs_from(before))


@every_pillar
async def test_credential_is_renewed_at_once_when_the_clock_jumps_over_its_instant(pillar: Pillar) -> None:
    clock = JumpingClock(pillar.plane.clock)
    pillar.use(clock=clock)
    await pillar.start()
    before = await honoured(pillar)
    early = timedelta(hours=1)
    await asyncio.sleep((pillar.renews_at(before) - clock.now() - early).total_seconds())
    assert credential_of(await honoured(pillar)) == credential_of(before)

    clock.ahead = early + timedelta(minutes=1)

    await honoured(pillar, differs_from(before), within=timedelta(minutes=5))


@every_pillar
async def test_clock_that_is_far_ahead_causes_few_requests(pillar: Pillar) -> None:
    clock, requests = JumpingClock(pillar.plane.clock), list[Request]()
    pillar.use(clock=clock, through=lambda transport: Counting(transport, requests))
    await pillar.start()
    await honoured(pillar)
    requests.clear()

    clock.ahead = LIFE * 0.85  # each new credential is due at once, by this clock
    await asyncio.sleep(timedelta(hours=1).total_seconds())

    await honoured(pillar)
    assert len([sent for sent in requests if pillar.is_request(sent)]) <= 8


@dataclass
class Counting:
    """A connection that notes what is created."""

    inner: Transport
    created: list[Request]

    async def send(self, request: Request) -> Response:
        if request.method == "POST":
            self.created.append(request)
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class FailingOnce:
    """A connection on which one write of a Secret fails, after the credential was obtained."""

    inner: Transport
    failed: list[str]

    async def send(self, request: Request) -> Response:
        if not self.failed and _writes_secret(request):
            self.failed.append(request.path)
            raise Unreachable("the write was lost", maybe_processed=False)
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


def _writes_secret(request: Request) -> bool:
    return request.method in {"POST", "PUT", "PATCH"} and "/secrets" in request.path


@every_pillar
async def test_credential_that_was_obtained_and_not_stored_is_obtained_again(pillar: Pillar) -> None:
    failed: list[str] = []
    pillar.use(through=lambda transport: FailingOnce(transport, failed))

    await pillar.start()

    await honoured(pillar)
    assert failed


@dataclass
class Mortal:
    """The connections of a process that is killed after so many writes."""

    inner: Transport
    life: Life

    async def send(self, request: Request) -> Response:
        if self.life.ended.is_set():
            raise Unreachable("the process is dead", maybe_processed=False)
        response = await self.inner.send(request)
        if request.method != "GET":
            self.life.writes += 1
        if self.life.writes == self.life.last:
            self.life.ended.set()
            raise Unreachable("the process died before it heard the answer")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class Life:
    """How long a process lives."""

    last: int  # the write after which it is killed
    writes: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.mark.parametrize("last", range(1, 7))
@every_pillar
async def test_process_that_is_killed_after_any_write_is_continued_by_the_next(pillar: Pillar, last: int) -> None:
    await _live_and_die(pillar, last)

    await pillar.start()

    await honoured(pillar)


@every_pillar
async def test_renewal_is_continued_after_a_kill_at_any_write(pillar: Pillar) -> None:
    await pillar.start()
    before = await honoured(pillar)
    for last in range(1, 7):
        await pillar.stop()
        await pillar.request_renewal(f"request-{last}")
        await _live_and_die(pillar, last)

        await pillar.start()

        before = await honoured(pillar, differs_from(before))


async def _live_and_die(pillar: Pillar, last: int) -> None:
    """Run a process until it has written so often, and kill it before it hears the answer."""
    life = Life(last)
    pillar.use(through=lambda transport: Mortal(transport, life))
    await pillar.start()
    async with asyncio.timeout(timedelta(days=1).total_seconds()):
        await life.ended.wait()
    await pillar.stop()
    pillar.use(through=lambda transport: transport)


@pytest.mark.parametrize("pillar", ["registration"], indirect=True)
async def test_cluster_whose_hub_refused_it_for_a_while_goes_on_by_itself(pillar: Pillar) -> None:
    assert isinstance(pillar, Registration)
    await pillar.start()
    before = await honoured(pillar)

    pillar.refused.add(certificate_in(before))
    await asyncio.sleep(timedelta(minutes=25).total_seconds())
    pillar.refused.clear()

    await honoured(pillar, differs_from(before), within=timedelta(hours=2))
