"""The client against whole control planes: every verb, every watch, restarts, compaction, rotation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, nullcontext
from pathlib import Path

import aiohttp
import orjson
import pytest
from tests.helpers.collections import delete_collection

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, can_i, may, who_am_i
from watchword.kube.client import Client, PatchType
from watchword.kube.connect import connect
from watchword.kube.credentials import StoredCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import AlreadyExists, Conflict, Forbidden, Gone, Invalid, NotFound
from watchword.kube.files import WatchedFile
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.kubeconfig_files import read_kubeconfig
from watchword.kube.tokens import request_token
from watchword.kube.watch import ObjectChange, Snapshot, WatchOptions, WatchUpdate, list_and_watch
from watchword.kube.watch_stream import WatchQuery, watch_events
from watchword.testing.eventually import eventually, exists
from watchword.testing.kube_apiserver_backend import KubeApiserverBackend
from watchword.testing.plane import Plane

REAL = "kube-apiserver"
OURS = "metadata.name!=kube-root-ca.crt"  # which controllers put into every namespace


def config_map(namespace: str, name: str, **data: str) -> Object:
    return CONFIG_MAPS.manifest(ObjectKey(namespace, name), data=data)


@pytest.fixture
async def namespace(plane: Plane) -> str:
    return await plane.namespace()


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_name_that_no_object_has_leads_to_no_other_path(plane: Plane, namespace: str, name: str) -> None:
    client, key = plane.client(), ObjectKey(namespace, name)
    await client.create(CONFIG_MAPS, config_map(namespace, "x"))

    assert await client.find(CONFIG_MAPS, key) is None
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, key)
    with pytest.raises(NotFound):
        await client.patch(CONFIG_MAPS, key, {"data": {"a": "1"}})
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, ObjectKey("..", "x"))
    assert await client.find(CONFIG_MAPS, ObjectKey(namespace, "x")) is not None


async def test_object_goes_through_every_verb(plane: Plane, namespace: str) -> None:
    client, key = plane.client(), ObjectKey(namespace, "x")

    created = await client.create(CONFIG_MAPS, config_map(namespace, "x", a="1"))
    await client.update(CONFIG_MAPS, {**created, "data": {"a": "2"}})
    await client.patch(CONFIG_MAPS, key, {"data": {"b": "3"}})
    await client.patch(CONFIG_MAPS, key, [{"op": "add", "path": "/data/c", "value": "4"}], kind=PatchType.JSON)
    await client.patch(CONFIG_MAPS, key, {"metadata": {"labels": {"l": "5"}}}, kind=PatchType.STRATEGIC)
    await client.apply(CONFIG_MAPS, config_map(namespace, "x", d="6"))
    found = await client.get(CONFIG_MAPS, key)
    await client.delete(CONFIG_MAPS, key, uid=uid_of(created))

    assert found["data"] == {"a": "2", "b": "3", "c": "4", "d": "6"}
    assert found["metadata"]["labels"] == {"l": "5"}
    assert await client.find(CONFIG_MAPS, key) is None


async def test_a_field_has_one_manager_until_another_forces(plane: Plane, namespace: str) -> None:
    client = plane.client()
    await client.apply(CONFIG_MAPS, config_map(namespace, "x", a="mine"), manager="me")

    with pytest.raises(Conflict, match="conflict"):
        await client.apply(CONFIG_MAPS, config_map(namespace, "x", a="yours"), manager="you")
    forced = await client.apply(CONFIG_MAPS, config_map(namespace, "x", a="yours"), manager="you", force=True)

    assert forced["data"] == {"a": "yours"}


async def test_refusals_are_typed(plane: Plane, namespace: str) -> None:
    client, key = plane.client(), ObjectKey(namespace, "x")
    created = await client.create(CONFIG_MAPS, config_map(namespace, "x", a="1"))
    await client.patch(CONFIG_MAPS, key, {"data": {"a": "2"}})

    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map(namespace, "x"))
    with pytest.raises(Conflict, match="modified"):
        await client.update(CONFIG_MAPS, created)
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, key, uid="another")
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, key, resource_version=created["metadata"]["resourceVersion"])
    with pytest.raises(Invalid):
        await client.create(CONFIG_MAPS, config_map(namespace, "Not A Name"))
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, ObjectKey(namespace, "y"))
    with pytest.raises(Forbidden):
        await plane.client("nobody").get(CONFIG_MAPS, key)


async def test_a_dry_run_stores_nothing(plane: Plane, namespace: str) -> None:
    await plane.client().create(CONFIG_MAPS, config_map(namespace, "x"), dry_run=True)

    assert await plane.client().find(CONFIG_MAPS, ObjectKey(namespace, "x")) is None


async def test_a_long_list_is_one_revision_in_pages(plane: Plane, namespace: str) -> None:
    client = plane.client()
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(namespace, f"x-{i}")) for i in range(25)))

    decoded = await client.list(CONFIG_MAPS, namespace=namespace, limit=10)
    raw = await client.list_raw(CONFIG_MAPS, namespace=namespace, limit=10, reduce=bytes)

    assert {item["metadata"]["name"] for item in decoded.items} >= {f"x-{i}" for i in range(25)}
    assert [orjson.loads(item) for item in raw.items] == decoded.items
    assert decoded.resource_version


async def test_a_collection_is_deleted_by_label(plane: Plane, namespace: str) -> None:
    client = plane.client()
    for name, label in (("x", "old"), ("y", "new")):
        await client.create(
            CONFIG_MAPS, CONFIG_MAPS.manifest(ObjectKey(namespace, name), metadata={"labels": {"age": label}})
        )

    await delete_collection(client, CONFIG_MAPS, namespace=namespace, labels="age=old")

    left = (await client.list(CONFIG_MAPS, namespace=namespace, labels="age")).items
    assert [item["metadata"]["name"] for item in left] == ["y"]


async def test_token_is_issued_for_the_account_with_the_uid(plane: Plane, namespace: str) -> None:
    client, key = plane.client(), ObjectKey(namespace, "robot")
    account = await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key))

    issued = await request_token(client, key, expiration_seconds=600, uid=uid_of(account))

    assert 590 < (issued.expires_at - plane.clock.now()).total_seconds() < 610


async def test_server_refuses_token_request_with_another_uid_from_kubernetes_1_34_on(
    plane: Plane, namespace: str
) -> None:
    client, key = plane.client(), ObjectKey(namespace, "robot")
    await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key))
    minor = int(orjson.loads(await client.read("/version"))["minor"])

    with pytest.raises(Conflict) if minor >= 34 else nullcontext():
        await request_token(client, key, expiration_seconds=600, uid="another")


async def test_server_reports_own_identity_and_rights(plane: Plane, namespace: str) -> None:
    read = ResourceAccess("get", CONFIG_MAPS, ObjectKey(namespace, "x"))
    eve = plane.client("eve", ["visitors"])

    who = await who_am_i(eve)

    assert (who.username, set(who.groups)) == ("eve", {"visitors", "system:authenticated"})
    assert not await can_i(eve, read)
    assert await can_i(plane.client(), read)
    assert not await may(plane.client(), UserIdentity("eve"), read)


async def test_any_path_can_be_read(plane: Plane) -> None:
    assert orjson.loads(await plane.client().read("/version"))["gitVersion"].startswith("v1.")


class View:
    """The updates of `list_and_watch` so far."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.facts: list[WatchUpdate] = []
        self.changed = asyncio.Condition()

    async def keep(self, client: Client, namespace: str, options: WatchOptions | None = None) -> None:
        async with aclosing(
            list_and_watch(client, CONFIG_MAPS, namespace=namespace, fields=OURS, options=options)
        ) as facts:
            async for fact in facts:
                async with self.changed:
                    self.take(fact)
                    self.changed.notify_all()

    def take(self, fact: WatchUpdate) -> None:
        self.facts.append(fact)
        if isinstance(fact, Snapshot):
            self.objects = {obj["metadata"]["name"]: obj for obj in map(orjson.loads, fact.items)}
        elif isinstance(fact, ObjectChange):
            obj = orjson.loads(fact.raw)
            self.objects.pop(obj["metadata"]["name"], None)
            if fact.type != "DELETED":
                self.objects[obj["metadata"]["name"]] = obj

    async def shows(self, *names: str, patience: float = 60) -> None:
        wanted = set(names)
        async with asyncio.timeout(patience), self.changed:
            await self.changed.wait_for(lambda: bool(self.facts) and set(self.objects) == wanted)


async def test_a_follower_sees_every_change_in_order(plane: Plane, namespace: str) -> None:
    client, view = plane.client(), View()
    await client.create(CONFIG_MAPS, config_map(namespace, "before"))
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(view.keep(client, namespace))
        await view.shows("before")
        await client.create(CONFIG_MAPS, config_map(namespace, "x", a="1"))
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "x"), {"data": {"a": "2"}})
        await client.delete(CONFIG_MAPS, ObjectKey(namespace, "before"))
        await view.shows("x")
        task.cancel()

    changes = [fact for fact in view.facts if isinstance(fact, ObjectChange)]
    assert [change.type for change in changes] == ["ADDED", "MODIFIED", "DELETED"]
    assert view.objects["x"] == await client.get(CONFIG_MAPS, ObjectKey(namespace, "x"))


async def test_an_object_looks_the_same_listed_and_watched(plane: Plane, namespace: str) -> None:
    client = plane.client()
    version = (await client.list(CONFIG_MAPS, namespace=namespace)).resource_version
    await client.create(CONFIG_MAPS, config_map(namespace, "x"))

    query = WatchQuery(namespace=namespace, fields=OURS, resource_version=version)
    async with asyncio.timeout(30), aclosing(watch_events(client, CONFIG_MAPS, query)) as events:
        watched = await anext(events)

    listed = await client.list_raw(CONFIG_MAPS, namespace=namespace, fields=OURS, reduce=bytes)
    assert [orjson.loads(item) for item in listed.items] == [watched.decode()]


@pytest.mark.planes(REAL)
async def test_a_revision_from_before_memory_is_gone(private_plane: Plane) -> None:
    namespace = await private_plane.namespace()
    client = private_plane.client()
    stale = (await client.create(CONFIG_MAPS, config_map(namespace, "x")))["metadata"]["resourceVersion"]
    for number in range(3):
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "x"), {"data": {"a": str(number)}})
    await private_plane.restart(kill=True)
    await compact(private_plane, stale)

    with pytest.raises(Gone):
        async with aclosing(watch_events(client, CONFIG_MAPS, WatchQuery(resource_version="1"))) as events:
            await anext(events)


@pytest.mark.real_time
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
async def test_watch_survives_a_restart_of_the_server(private_plane: Plane, kill: bool) -> None:  # noqa: FBT001 - a table
    namespace = await private_plane.namespace()
    client, view = private_plane.client(), View()
    await client.create(CONFIG_MAPS, config_map(namespace, "before"))
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(view.keep(client, namespace))
        await view.shows("before")
        await private_plane.restart(kill=kill)
        await client.create(CONFIG_MAPS, config_map(namespace, "after"))
        await client.delete(CONFIG_MAPS, ObjectKey(namespace, "before"))
        await view.shows("after")
        task.cancel()


@pytest.mark.planes(REAL)
async def test_watch_survives_compaction(private_plane: Plane) -> None:
    namespace = await private_plane.namespace()
    client, view = private_plane.client(), View()
    await client.create(CONFIG_MAPS, config_map(namespace, "before"))
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(view.keep(client, namespace))
        await view.shows("before")
        for name in "abc":
            newest = await client.create(CONFIG_MAPS, config_map(namespace, name))
        await compact(private_plane, newest["metadata"]["resourceVersion"])
        await private_plane.restart(kill=True)
        await client.create(CONFIG_MAPS, config_map(namespace, "after"))
        await view.shows("before", "a", "b", "c", "after")
        task.cancel()


async def compact(plane: Plane, revision: str) -> None:
    """Make etcd forget what was before a revision."""
    assert isinstance(plane._backend, KubeApiserverBackend)
    url = f"{plane._backend.cluster.etcd_endpoint}/v3/kv/compaction"
    async with aiohttp.ClientSession() as session, session.post(url, json={"revision": revision}) as answer:
        assert answer.status == 200, await answer.text()


@pytest.mark.real_time
async def test_a_kubeconfig_is_all_that_is_needed(plane: Plane) -> None:
    client = connect(plane.kubeconfig)
    try:
        assert await client.find(NAMESPACES, ObjectKey.cluster("default")) is not None
        assert client.clock_skew is not None
    finally:
        await client.close()


async def under_load(client: Client, rotate: Callable[[], object]) -> list[str]:
    """Request the own identity repeatedly, rotate meanwhile, and go on until the new name is returned."""
    seen: list[str] = []

    async def ask() -> None:
        while len(seen) < 200 or len(set(seen[-20:])) > 1 or seen[-1] == seen[0]:
            seen.append((await who_am_i(client)).username)
            if len(seen) == 100:
                rotate()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(ask())
    await client.close()
    return seen


@pytest.mark.real_time
async def test_certificate_files_rotate_under_load(plane: Plane, tmp_path: Path) -> None:
    users = [read_kubeconfig(plane.kubeconfig_for(name)).choose() for name in ("old", "new")]
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def install(number: int) -> None:
        held = users[number].user
        assert held.key_data is not None
        chain.write_bytes(held.certificate_data)  # not at once: readers may see a new chain with an old key
        key.write_bytes(held.key_data.reveal())

    install(0)
    stored = StoredCredential(chain=WatchedFile(chain, "certificate"), key=WatchedFile(key, "key"))
    client = Client(HttpsTransport(Endpoint(plane.server, plane.ca_pem), stored))
    seen = await under_load(client, lambda: install(1))

    assert seen[0] == "old"
    assert seen[-1] == "new"
    assert set(seen) == {"old", "new"}


@pytest.mark.real_time
async def test_token_files_rotate_under_load(plane: Plane, namespace: str, tmp_path: Path) -> None:
    tokens = []
    for name in ("old", "new"):
        await plane.client().create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(ObjectKey(namespace, name)))
        tokens.append(await request_token(plane.client(), ObjectKey(namespace, name), expiration_seconds=600))
    file = tmp_path / "token"
    file.write_text(tokens[0].token.reveal())

    client = Client(
        HttpsTransport(Endpoint(plane.server, plane.ca_pem), StoredCredential(token=WatchedFile(file, "token file")))
    )
    seen = await under_load(client, lambda: file.write_text(tokens[1].token.reveal()))

    accounts = [f"system:serviceaccount:{namespace}:{name}" for name in ("old", "new")]
    assert (seen[0], seen[-1]) == (accounts[0], accounts[1])
    assert set(seen) == set(accounts)


async def test_api_server_is_published_as_a_service(plane: Plane) -> None:
    service = await eventually(plane.client(), SERVICES, ObjectKey("default", "kubernetes"), exists)

    ports = [(port["name"], port["port"], port["protocol"]) for port in service["spec"]["ports"]]
    assert ports == [("https", 443, "TCP")]
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
