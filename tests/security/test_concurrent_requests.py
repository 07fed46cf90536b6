"""Requests of two keys for one name that arrive together, or at two hubs: the name goes to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from tests.helpers.fleet import AUTOMATIC, FleetHarness, PlaneConnector
from tests.registration.test_join import request_with_another_key

from watchword.api.meta import ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.credentials.certificates.requests import is_approved
from watchword.credentials.driver import HubContext, RegistrationValidator
from watchword.kube.client import Client
from watchword.registration.certificate_approval import CertificateApprovalReconciler
from watchword.registration.csr.driver import read_allow_list
from watchword.registration.hub.cluster_rbac import RetiredClusterNames
from watchword.registration.hub.controllers import register_informers
from watchword.runtime.cache import Cache
from watchword.runtime.ensure import Ensurer
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.metrics import Metrics


@asynccontextmanager
async def approver(
    fleet: FleetHarness, validate_registration: RegistrationValidator
) -> AsyncIterator[CertificateApprovalReconciler]:
    cache, clock = Cache.of(fleet.plane.fresh_client()), fleet.plane.clock
    register_informers(cache)
    running = asyncio.create_task(cache.run())
    await cache.sync()
    events = EventRecorder(fleet.client, "test", "test", clock=clock, random=Random("x"), counts=Metrics())
    context = HubContext(
        cache=cache,
        client=fleet.client,
        events=events,
        clock=clock,
        validate_registration=validate_registration,
        cluster_subjects=RetiredClusterNames(Ensurer(cache, fleet.client), clock),
        settings=AUTOMATIC,
        auto_approval=True,
    )
    yield CertificateApprovalReconciler(context, "csr", KUBE_CLIENT_SIGNER, read_allow_list(context))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def two_requests(fleet: FleetHarness) -> list[ObjectKey]:
    name = fleet.name()
    joining = Client(PlaneConnector(fleet.plane).joining())
    await joining.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={}))
    return [ObjectKey.cluster(await request_with_another_key(joining, name)) for _ in range(2)]


async def freely(_requester: str, _cluster: str) -> str | None:
    return None


async def approved(fleet: FleetHarness, keys: list[ObjectKey]) -> int:
    return sum([is_approved(await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, key)) for key in keys])


async def test_name_is_reserved_while_a_token_is_looked_up(fleet: FleetHarness) -> None:
    keys, looked_up = await two_requests(fleet), asyncio.Event()

    async def slowly(_requester: str, _cluster: str) -> str | None:
        await looked_up.wait()
        return None

    async with approver(fleet, slowly) as reconciler:
        both = [asyncio.create_task(reconciler.reconcile(key)) for key in keys]
        await asyncio.sleep(0)
        looked_up.set()
        await asyncio.gather(*both, return_exceptions=True)  # the slower one meets the note, and looks again

    assert await approved(fleet, keys) == 1


async def test_of_two_hubs_that_assume_leadership_one_accepts_the_name(fleet: FleetHarness) -> None:
    keys, looked_up = await two_requests(fleet), asyncio.Event()

    async def together(_requester: str, _cluster: str) -> str | None:
        await looked_up.wait()
        return None

    async with approver(fleet, together) as one, approver(fleet, together) as other:
        both = [asyncio.create_task(hub.reconcile(key)) for hub, key in zip((one, other), keys, strict=True)]
        await asyncio.sleep(0)
        looked_up.set()
        await asyncio.gather(*both, return_exceptions=True)

    assert await approved(fleet, keys) == 1


async def test_first_key_stays_on_record_after_its_request_is_deleted(fleet: FleetHarness) -> None:
    first, second = await two_requests(fleet)
    async with approver(fleet, freely) as before:
        await before.reconcile(first)
    await fleet.client.delete(CERTIFICATE_SIGNING_REQUESTS, first)  # as every hub does within the hour

    async with approver(fleet, freely) as after:
        await after.reconcile(second)

    assert await approved(fleet, [second]) == 0


async def test_name_that_a_used_up_token_asked_for_stays_free(fleet: FleetHarness) -> None:
    keys = await two_requests(fleet)
    answers: list[str | None] = ["the token has been used", None]

    async def in_turn(_requester: str, _cluster: str) -> str | None:
        return answers.pop(0)

    async with approver(fleet, in_turn) as reconciler:
        for key in keys:
            await reconciler.reconcile(key)

    assert await approved(fleet, keys) == 1
    assert not answers
