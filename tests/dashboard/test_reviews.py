"""How often the API server is asked what a person may see."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest_asyncio
from tests.dashboard.harness import a_person, allow, read
from tests.helpers.server_decision import grant
from tests.registration.grpc.test_reviews import CountingTransport

from watchword.api.meta import ObjectKey
from watchword.api.resources import CLUSTER_ROLE_BINDINGS
from watchword.dashboard.sources import CLUSTERS, DASHBOARD_SOURCES
from watchword.dashboard.viewers import ReviewedRights
from watchword.kube.client import Client
from watchword.testing.plane import Plane

CLUSTER_GROUP = "cluster.open-cluster-management.io"
KINDS, DIVISIBLE = len(DASHBOARD_SOURCES), sum(source.divisible for source in DASHBOARD_SOURCES)


@dataclass
class CountedRights:
    """The rights of one person on the places that the test names, and how many requests their reviews took."""

    viewers: ReviewedRights
    counting: CountingTransport
    cookie: str
    user: str
    places: set[str] = field(default_factory=set)

    async def requests(self, times: int = 1) -> int:
        """Look as often as that at once, and return the number of requests."""
        before = self.counting.sent
        await asyncio.gather(*(self.viewers.see(self.cookie) for _ in range(times)))
        return self.counting.sent - before


@pytest_asyncio.fixture
async def rights(plane: Plane) -> CountedRights:
    """A person who may see the cluster edge-1 alone."""
    person, token = await a_person(plane, "owner")
    await allow(plane, person, read("managedclusters", CLUSTER_GROUP, "edge-1"))
    counting, places = CountingTransport(plane.client().transport), {f"edge-{number}" for number in range(10)}
    viewers = ReviewedRights(Client(counting), plane.clock, lambda: frozenset(places))
    cookie = await viewers.sign_in(token)
    assert cookie is not None
    return CountedRights(viewers, counting, cookie, f"system:serviceaccount:{person.namespace}:owner", places)


async def test_new_cluster_is_reviewed_without_asking_for_the_others_again(rights: CountedRights) -> None:
    first = await rights.requests()
    rights.places.add("edge-10")
    second, third = await rights.requests(), await rights.requests()

    assert second <= KINDS + DIVISIBLE < first
    assert third == 0


async def test_pages_of_one_browser_share_a_review(rights: CountedRights) -> None:
    first = await rights.requests(times=5)

    assert first <= 1 + KINDS + DIVISIBLE * len(rights.places)


async def test_withdrawn_right_on_a_whole_kind_is_noticed_with_the_next_new_cluster(
    plane: Plane, rights: CountedRights
) -> None:
    name = plane.unique("viewer")
    rule = {"apiGroups": [CLUSTER_GROUP], "resources": ["managedclusters"], "verbs": ["list"]}
    await grant(plane.client(), ObjectKey.cluster(name), [rule], rights.user)
    before = await rights.viewers.see(rights.cookie)
    await plane.client().delete(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(name))
    rights.places.add("edge-10")
    after = await rights.viewers.see(rights.cookie)

    assert before is not None
    assert after is not None
    assert [before.sees(CLUSTERS, each) for each in ("edge-1", "edge-2")] == [True, True]
    assert [after.sees(CLUSTERS, each) for each in ("edge-1", "edge-2")] == [True, False]
