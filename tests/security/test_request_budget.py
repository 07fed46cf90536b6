"""How many certificate requests one requester can have stored on the hub, and how large they are."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest
from tests.helpers.events import is_told
from tests.helpers.server_decision import until_refused

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import KUBE_CLIENT_SIGNER, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.registration.hub import installation
from watchword.registration.hub.controllers import OF_CLUSTERS, request_budget_controller
from watchword.runtime.cache import Cache
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

MOST = 3
NODE_GROUP = "system:bootstrappers:kubeadm:default-node-token"
PEM = build_csr(PrivateKey.generate(), CertificateSubject("system:open-cluster-management:c:a", ()))


def a_request(name: str, *, labelled: bool = True, signer: str = KUBE_CLIENT_SIGNER, **metadata: object) -> Object:
    labels = {"labels": {Label.CLUSTER_NAME: "c"}} if labelled else {}
    spec = {"request": base64.b64encode(PEM).decode(), "signerName": signer, "usages": ["client auth"]}
    return CERTIFICATE_SIGNING_REQUESTS.manifest(ObjectKey.cluster(name), metadata={**labels, **metadata}, spec=spec)


@pytest.fixture
async def hub(plane: Plane) -> AsyncIterator[Client]:
    """A hub that keeps few undecided requests of a requester, and no other controller."""
    client = plane.client()
    await installation.install(client)
    manager = Manager(ManagerOptions("watchword.dev/test", "one"), clock=plane.clock, random=Random(1))
    connection = manager.connect(client)
    connection.cache.informer(CERTIFICATE_SIGNING_REQUESTS, OF_CLUSTERS)
    manager.add(request_budget_controller(connection.cache, client, connection.events, most=MOST))
    running = asyncio.create_task(manager.run())
    yield client
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def joining(plane: Plane, *groups: str) -> Client:
    return plane.client(plane.unique("system:bootstrap:"), [MANAGED_CLUSTER_GROUP, *groups])


async def test_surplus_requests_of_one_requester_are_deleted_and_reported(plane: Plane, hub: Client) -> None:
    flood, other, stem = joining(plane), joining(plane), plane.unique("request")
    names = [f"{stem}-{number}" for number in range(MOST + 2)]

    for name in names:
        await flood.create(CERTIFICATE_SIGNING_REQUESTS, a_request(name))
    await other.create(CERTIFICATE_SIGNING_REQUESTS, a_request(f"{stem}-other"))

    for name in names[MOST:]:
        await eventually(hub, CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name), is_gone)
    for name in (*names[:MOST], f"{stem}-other"):
        assert await hub.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name)) is not None
    await is_told(hub, names[0], "TooManyRequests")


class CountingCache(Cache):
    """Counts how often all requests of a requester are read."""

    reads = 0

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]:
        self.reads += 1
        return super().by_index(resource, index, value)


async def test_requests_of_a_flood_are_read_once_and_not_for_each_of_them(plane: Plane) -> None:
    client, flood, stem = plane.client(), joining(plane), plane.unique("request")
    await installation.install(client)
    events = Manager(ManagerOptions("watchword.dev/test", "one"), clock=plane.clock, random=Random(1))
    cache = CountingCache.of(client)
    cache.informer(CERTIFICATE_SIGNING_REQUESTS, OF_CLUSTERS)
    budget = request_budget_controller(cache, client, events.connect(client).events, most=MOST).reconciler
    running = asyncio.create_task(cache.run())
    keys = [ObjectKey.cluster(f"{stem}-{number:02}") for number in range(40)]
    created = [await flood.create(CERTIFICATE_SIGNING_REQUESTS, a_request(key.name)) for key in keys]
    await cache.sync()
    await cache.wait_for(CERTIFICATE_SIGNING_REQUESTS, created[-1]["metadata"]["resourceVersion"])

    for key in reversed(keys):
        await budget.reconcile(key)

    found = [await client.find(CERTIFICATE_SIGNING_REQUESTS, key) is not None for key in keys]
    assert found == [True] * MOST + [False] * (len(keys) - MOST)
    assert cache.reads == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_request_of_an_agent_is_bounded(plane: Plane, hub: Client) -> None:
    user, name = joining(plane), plane.unique("request")
    whole = a_request(name)
    large = {**whole["spec"], "request": base64.b64encode(PEM + b"\n" * 20_000).decode()}
    hostile = {
        "16384 bytes": {**whole, "spec": large},
        "carries the label": a_request(name, labelled=False),
        "at most 16 labels": a_request(name, annotations={"a": "x" * 5000}),
        "no finalizers": a_request(name, finalizers=["example.com/kept"]),
    }
    await until_refused(lambda: user.create(CERTIFICATE_SIGNING_REQUESTS, hostile["no finalizers"], dry_run=True))

    for objection, request in hostile.items():
        with pytest.raises(Forbidden, match=objection):
            await user.create(CERTIFICATE_SIGNING_REQUESTS, request)
    await user.create(CERTIFICATE_SIGNING_REQUESTS, whole, dry_run=True)
    await hub.create(CERTIFICATE_SIGNING_REQUESTS, hostile["carries the label"], dry_run=True)


async def test_kubelet_requests_need_no_label_of_a_cluster(plane: Plane, hub: Client) -> None:
    name = plane.unique("request")
    kubelet = a_request(name, labelled=False, signer="kubernetes.io/kubelet-serving")
    user, node = joining(plane), joining(plane, NODE_GROUP)

    await until_refused(lambda: user.create(CERTIFICATE_SIGNING_REQUESTS, kubelet, dry_run=True))

    await node.create(CERTIFICATE_SIGNING_REQUESTS, kubelet, dry_run=True)
    assert await hub.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name)) is None
