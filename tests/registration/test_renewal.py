"""Certificates are renewed in time under faults, and each is requested once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, lifetime_settings

from watchword.admin.accept import HubAdmin
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.certificates.requests import is_pending
from watchword.credentials.credential_secret import decode_data
from watchword.kube.transport import Transport
from watchword.kube.watch import ObjectChange, list_and_watch
from watchword.pki.certificates import parse_certificate
from watchword.runtime.raw_objects import decode

pytestmark = [pytest.mark.planes("embedded"), pytest.mark.timeout(600)]

ONE_IN_A_HUNDRED = FaultPlan(
    fail=0.004, refuse=0.002, lose=0.002, cut=0.002, watch=WatchFaults(drop=0.005, cut=0.0025, expire=0.0025)
)
CLUSTERS, HOURS, LOOK_EVERY = 3, 12, timedelta(minutes=15)


@dataclass
class RandomFaults:
    """Lets requests fail, the same ones in each run."""

    random: Random = field(default_factory=lambda: Random("weather"))
    lines: list[FaultyTransport] = field(default_factory=list)

    def through(self, inner: Transport) -> Transport:
        self.lines.append(FaultyTransport(inner, ONE_IN_A_HUNDRED, self.random))
        return self.lines[-1]

    @property
    def struck(self) -> int:
        return sum((line.injected for line in self.lines), Counter[str]()).total()


@dataclass
class CertificateHistory:
    """What was seen of one cluster."""

    serials: set[int] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    uids: set[str] = field(default_factory=set)
    shortest_left: timedelta = timedelta.max

    async def note(self, fleet: FleetHarness, name: str, now: datetime) -> None:
        held = decode_data(await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))
        certificate = parse_certificate(held["tls.crt"])
        asked = await fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")
        self.serials.add(certificate.serial)
        self.requests |= {uid_of(request) for request in asked.items if "certificate" in (request.get("status") or {})}
        self.uids.add(uid_of(await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))))
        self.shortest_left = min(self.shortest_left, certificate.not_after - now)


@pytest.mark.slow
async def test_no_certificate_expires_or_is_asked_for_twice_while_one_request_in_a_hundred_fails(
    fleet: FleetHarness,
) -> None:
    weather, diaries = RandomFaults(), {fleet.name(): CertificateHistory() for _ in range(CLUSTERS)}
    fleet.through = weather.through
    fleet.start_hub(AUTOMATIC)
    for name in diaries:
        fleet.start_agent(name, settings=lifetime_settings(certificate=timedelta(hours=1)))
    for name in diaries:
        await fleet.joined(name)

    for _ in range(int(timedelta(hours=HOURS) / LOOK_EVERY)):
        await asyncio.sleep(LOOK_EVERY.total_seconds())
        for name, diary in diaries.items():
            await diary.note(fleet, name, fleet.plane.clock.now())

    assert weather.struck >= 20
    for diary in diaries.values():
        assert len(diary.serials) >= HOURS
        assert diary.shortest_left > timedelta(minutes=5)
        assert len(diary.requests) == len(diary.serials)
        assert len(diary.uids) == 1


async def test_agent_whose_requests_are_denied_backs_off(
    fleet: FleetHarness,
) -> None:
    name = fleet.name()
    fleet.start_hub()
    fleet.start_agent(name)
    desk, labels = HubAdmin(fleet.client, fleet.plane.clock), f"{Label.CLUSTER_NAME}={name}"

    async def deny_whatever_comes() -> None:
        async for fact in list_and_watch(fleet.client, CERTIFICATE_SIGNING_REQUESTS, labels=labels):
            for raw in [fact.raw] if isinstance(fact, ObjectChange) else getattr(fact, "items", ()):
                csr = decode(raw, CERTIFICATE_SIGNING_REQUESTS)
                if is_pending(csr):
                    await desk.record_decision(csr, "Denied", "never")

    denying = asyncio.create_task(deny_whatever_comes())
    await asyncio.sleep(timedelta(minutes=30).total_seconds())
    denying.cancel()

    asked = (await fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=labels)).items
    assert 10 <= len(asked) <= 16
