"""The contract of the control-plane fixtures, on every control plane."""

from __future__ import annotations

import asyncio
import contextlib
import stat

import pytest

from watchword.api.meta import ObjectKey, uid_of
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SELF_SUBJECT_REVIEWS
from watchword.kube.errors import Forbidden, NotFound, Unreachable
from watchword.testing.builders import a_config_map
from watchword.testing.errors import EventuallyTimeout, UnsupportedByPlane
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane, empty_namespace


async def test_object_can_be_read_back(plane: Plane) -> None:
    namespace = await plane.namespace()

    await plane.client().create(CONFIG_MAPS, a_config_map("greeting", namespace=namespace, data={"say": "hello"}))

    found = await plane.client().get(CONFIG_MAPS, ObjectKey(namespace, "greeting"))
    assert found["data"] == {"say": "hello"}


async def test_client_is_authenticated_by_certificate(plane: Plane) -> None:
    review = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}

    answer = await plane.client("eve", ["visitors"]).create(SELF_SUBJECT_REVIEWS, review)

    assert answer["status"]["userInfo"]["username"] == "eve"
    assert set(answer["status"]["userInfo"]["groups"]) == {"visitors", "system:authenticated"}


async def test_user_without_rights_is_refused(plane: Plane) -> None:
    namespace = await plane.namespace()

    with pytest.raises(Forbidden):
        await plane.client("eve").list(CONFIG_MAPS, namespace=namespace)


async def test_namespaces_of_a_test_are_its_own(plane: Plane) -> None:
    first, second = await plane.namespace(), await plane.namespace()

    assert first != second
    assert (await plane.client().list(CONFIG_MAPS, namespace=second)).items == []


async def test_emptied_namespace_leaves_nothing_behind(plane: Plane) -> None:
    client = plane.client()
    namespace = await plane.namespace()
    await client.create(CONFIG_MAPS, a_config_map("left", namespace=namespace))

    await empty_namespace(client, namespace)

    assert await client.find(NAMESPACES, ObjectKey.cluster(namespace)) is None
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, ObjectKey(namespace, "left"))


async def test_eventually_sees_what_comes_and_what_goes(plane: Plane) -> None:
    client = plane.client()
    key = ObjectKey(await plane.namespace(), "guest")
    created = await client.create(CONFIG_MAPS, a_config_map(key.name, namespace=key.namespace))

    assert uid_of(await eventually(client, CONFIG_MAPS, key)) == uid_of(created)
    await client.delete(CONFIG_MAPS, key)
    assert await eventually(client, CONFIG_MAPS, key, is_gone) == {}


async def test_eventually_gives_up_and_shows_what_it_saw(plane: Plane) -> None:
    client = plane.client()
    key = ObjectKey(await plane.namespace(), "guest")
    await client.create(CONFIG_MAPS, a_config_map(key.name, namespace=key.namespace))

    with pytest.raises(EventuallyTimeout, match=r"(?s)last seen: .*guest"):
        await eventually(client, CONFIG_MAPS, key, is_gone, within=10)


async def test_shared_plane_is_not_restarted_under_other_tests(plane: Plane) -> None:
    with pytest.raises(UnsupportedByPlane, match="private_plane"):
        await plane.restart()


@pytest.mark.real_time
async def test_kubeconfig_is_private(plane: Plane) -> None:
    for path in (plane.kubeconfig, plane.kubeconfig_for("eve", ["visitors"])):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.planes("embedded")
async def test_plane_without_a_socket_says_how_to_get_one(plane: Plane) -> None:
    with pytest.raises(UnsupportedByPlane, match="mark the test real_time"):
        _ = plane.kubeconfig


async def test_watch_goes_on_after_a_restart(private_plane: Plane) -> None:
    client = private_plane.client()
    key = ObjectKey(await private_plane.namespace(), "later")
    async with asyncio.TaskGroup() as tasks:
        seen = tasks.create_task(eventually(client, CONFIG_MAPS, key))
        await private_plane.restart()
        await client.create(CONFIG_MAPS, a_config_map(key.name, namespace=key.namespace))

    assert ObjectKey.of(seen.result()) == key


async def test_watch_ends_at_a_restart_although_its_reader_was_busy(private_plane: Plane) -> None:
    client = private_plane.client()
    async with client.open("/api/v1/namespaces", query={"watch": "true"}) as response:
        assert response.stream is not None
        await anext(aiter(response.stream))

        await private_plane.restart()

        with contextlib.suppress(Unreachable):
            async with asyncio.timeout(60):
                async for _ in response.stream:
                    pass


@pytest.mark.real_time
async def test_private_plane_keeps_its_data_through_a_crash(private_plane: Plane) -> None:
    namespace = await private_plane.namespace()

    await private_plane.restart(kill=True)

    assert await private_plane.client().get(NAMESPACES, ObjectKey.cluster(namespace))
