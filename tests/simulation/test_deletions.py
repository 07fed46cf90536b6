"""An object that another program deletes at once is made a few times an hour, and again soon after that has ended."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest
from msgspec import Struct, field
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.planes import PlaneImages, SimulatedPlane, StoreReader
from tests.simulation.settings import DAY, HOUR, MINUTE, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate

from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.runtime.cache import Cache
from watchword.runtime.contested_writes import LONGEST_PAUSE_SECONDS
from watchword.runtime.ensure import delete_object
from watchword.runtime.event_loop import running

LIFE = SimulationSettings(
    seed=1,
    clusters=1,
    days=2,
    quiet=DAY,
    background_faults=FaultPlan(),
    pillars=("accounts", "pull-secrets", "operator"),
)
JOIN, LATER = timedelta(0), 12 * HOUR
FEWEST, MOST = 10, 20
"""Creations of one object in the hour: a few at once, then one after each pause, until it is the longest."""


class Deleter(Struct):
    """Deletes objects of a kind as soon as it sees them, for an hour."""

    resource: Resource
    names: re.Pattern[str]
    deleted: set[tuple[str, ObjectKey, str]] = field(default_factory=set)  # each object of a server: its key and UID
    missing: list[ObjectKey] = field(default_factory=list)  # what was not made again after the last deletion
    too_frequent: list[str] = field(default_factory=list)

    async def run(self, fleet: SimulatedFleet) -> None:
        planes = [fleet.hub, *(member.plane for member in fleet.members.values())]
        with suppress(TimeoutError):
            async with asyncio.timeout(HOUR.total_seconds()), asyncio.TaskGroup() as group:
                for plane in planes:
                    group.create_task(self._delete_at(plane))
        await asyncio.sleep(LONGEST_PAUSE_SECONDS + MINUTE.total_seconds())
        for plane in planes:
            keys = {key for at, key, _ in self.deleted if at == plane.name}
            self.missing += [key for key in keys if StoreReader(plane.store).get(self.resource, key) is None]
        self.too_frequent += fleet.history.too_frequent

    async def _delete_at(self, plane: SimulatedPlane) -> None:
        client, changed = plane.administrator(), asyncio.Event()
        cache = Cache.of(client)
        cache.add_handler(self.resource, lambda _: changed.set())
        async with running(cache.run(), "deleter"):
            while True:
                await changed.wait()
                changed.clear()
                for obj in cache.list(self.resource):
                    await self._delete(plane.name, client, obj)

    async def _delete(self, plane: str, client: Client, obj: Object) -> None:
        key, uid = ObjectKey.of(obj), uid_of(obj)
        if self.names.fullmatch(key.name) and (plane, key, uid) not in self.deleted:
            self.deleted.add((plane, key, uid))
            await delete_object(client, self.resource, obj)


@pytest.mark.timeout(300)  # of wall time: the cores may be busy
@pytest.mark.parametrize(
    ("resource", "names", "since"),
    [
        pytest.param(MANAGED_CLUSTERS, "edge-1", JOIN, id="the agent registers its cluster"),
        pytest.param(CERTIFICATE_SIGNING_REQUESTS, ".*", JOIN, id="the agent asks for its certificate"),
        pytest.param(SECRETS, ".*hub-kubeconfig.*", LATER, id="the agent stores credentials"),
        pytest.param(CONFIG_MAPS, "settings", LATER, id="two works apply one object"),
        pytest.param(ROLES, ".*token-role", LATER, id="the hub grants rights"),
        pytest.param(MANIFEST_WORKS, "addon-.*", LATER, id="the hub deploys an add-on"),
        pytest.param(SERVICE_ACCOUNTS, "robot|crew", LATER, id="the agent of the accounts makes ServiceAccounts"),
        pytest.param(SECRETS, "robot|crew|.*[.]crew", LATER, id="tokens of accounts are stored on the hub"),
        pytest.param(SECRETS, ".*-dockercfg-.*", LATER, id="pull secrets are made"),
        pytest.param(DEPLOYMENTS, "klusterlet-agent|cluster-manager-controller", LATER, id="the operator deploys"),
    ],
)
def test_object_that_is_deleted_at_once_is_made_a_few_times_an_hour_and_again_soon_afterwards(
    images: PlaneImages, resource: Resource, names: str, since: timedelta
) -> None:
    deleter = Deleter(resource, re.compile(names))

    report = simulate(LIFE, images, SimulationScript(sabotage=(since, deleter.run)))

    made = Counter((plane, key) for plane, key, _ in deleter.deleted)
    assert made
    assert all(FEWEST <= times <= MOST for times in made.values()), made
    assert deleter.missing == []
    assert deleter.too_frequent == []
    assert set(report.starts.values()) == {1}, report.starts


def test_secret_that_is_deleted_at_once_is_not_made_for_every_note_about_the_registration(images: PlaneImages) -> None:
    clusters = Deleter(MANAGED_CLUSTERS, re.compile("edge-1"))
    secrets = Deleter(SECRETS, re.compile("hub-kubeconfig-secret"))

    async def delete_both(fleet: SimulatedFleet) -> None:
        await asyncio.gather(clusters.run(fleet), secrets.run(fleet))

    simulate(LIFE, images, SimulationScript(sabotage=(JOIN, delete_both)))

    assert FEWEST <= len(secrets.deleted) <= 2 * MOST  # by the report of the connection, and for the credential
    assert secrets.missing == []
    assert secrets.too_frequent == []
