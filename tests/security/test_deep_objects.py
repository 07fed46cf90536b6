"""An object that is nested more deeply than decoders follow hides no other object of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.json import MAX_DEPTH, copy_json, is_deeper_than, limit_depth
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import MANAGED_CLUSTERS, MANIFEST_WORKS, NAMESPACES
from watchword.kube.client import Client
from watchword.registration.hub import installation
from watchword.runtime.cache import Cache
from watchword.testing.builders import a_cluster
from watchword.testing.plane import Plane

DEPTH = 3000
DEEP = b'{"f:a":' * DEPTH + b"{}" + b"}" * DEPTH


@asynccontextmanager
async def watching(client: Client, kind: Resource) -> AsyncIterator[Cache]:
    cache = Cache.of(client)
    cache.informer(kind)
    running = asyncio.create_task(cache.run())
    synced = asyncio.ensure_future(cache.sync())
    await asyncio.wait([running, synced], return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running.exception()
    yield cache
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def create_deep(client: Client, kind: Resource, manifest: Object) -> bool:
    """Create an object with deep content in place of "DEEP"; whether the server stored it."""
    namespace = manifest["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if namespace else ""
    body = orjson.dumps(manifest).replace(b'"DEEP"', DEEP)
    answer = await client.request("POST", f"/apis/{kind.api_version}{place}/{kind.plural}", body=orjson.Fragment(body))
    assert answer.status in (201, 400), answer.body
    return answer.status == 201


async def test_deep_work_of_a_tenant_hides_no_other_work(plane: Plane) -> None:
    client, namespace = plane.client(), plane.unique("tenant")
    await installation.install(client)
    await client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace)))
    first, second, deep = (ObjectKey(namespace, name) for name in ("first", "second", "deep"))
    await client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(first, spec={}))
    manifest = {"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}, "spec": "DEEP"}
    hostile = MANIFEST_WORKS.manifest(deep, spec={"workload": {"manifests": [manifest]}})

    async with watching(client, MANIFEST_WORKS) as live:
        stored = await create_deep(client, MANIFEST_WORKS, hostile)
        last = await client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(second, spec={}))
        await live.wait_for(MANIFEST_WORKS, last["metadata"]["resourceVersion"])
        async with watching(client, MANIFEST_WORKS) as anew:
            for cache in (live, anew):
                assert {first, second} <= set(cache.keys(MANIFEST_WORKS))
                assert (cache.get(MANIFEST_WORKS, deep) is not None) == stored
    listed = await client.list(MANIFEST_WORKS, namespace=namespace)
    assert {ObjectKey.of(work) for work in listed.items} >= {first, second}
    if stored:
        await client.delete(MANIFEST_WORKS, deep)


async def test_deep_managed_fields_of_a_joining_cluster_hide_no_other_cluster(plane: Plane) -> None:
    client = plane.client()
    await installation.install(client)
    joining = plane.client(plane.unique("system:bootstrap:"), [MANAGED_CLUSTER_GROUP])
    honest, hostile = (ObjectKey.cluster(plane.unique(name)) for name in ("honest", "hostile"))
    await client.create(MANAGED_CLUSTERS, a_cluster(honest.name))
    row = {"manager": "a", "operation": "Update", "apiVersion": MANAGED_CLUSTERS.api_version, "fieldsType": "FieldsV1"}
    manifest = a_cluster(hostile.name)
    manifest["metadata"]["managedFields"] = [{**row, "fieldsV1": "DEEP"}]

    stored = await create_deep(joining, MANAGED_CLUSTERS, manifest)

    async with watching(client, MANAGED_CLUSTERS) as cache:
        assert honest in cache.keys(MANAGED_CLUSTERS)
    assert honest in map(ObjectKey.of, (await client.list(MANAGED_CLUSTERS)).items)
    if stored:
        await client.delete(MANAGED_CLUSTERS, hostile)


VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.text(alphabet='{}[]"\\a', max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(alphabet='{["\\', max_size=3), below, max_size=3)
    ),
)


@given(value=VALUES, before=VALUES, padding=st.sampled_from((0, MAX_DEPTH - 2, MAX_DEPTH, 3 * MAX_DEPTH)))
def test_what_is_not_deep_stays_and_the_rest_is_cut(value: object, before: object, padding: int) -> None:
    inner = orjson.dumps(value)
    raw = orjson.dumps(before) + b"," + b"[" * padding + inner + b"]" * padding
    raw = b"[%b%b]" % (raw, b",[]" * MAX_DEPTH)

    cut = orjson.loads(limit_depth(raw))

    assert cut[0] == before
    assert cut[2:] == [[]] * MAX_DEPTH
    assert not is_deeper_than(cut, MAX_DEPTH)
    if padding + inner.count(b"{") + inner.count(b"[") < MAX_DEPTH:
        assert cut == orjson.loads(raw)


@pytest.mark.parametrize("depth", [100, 240, 300, 500, 950, 5000])
def test_what_is_read_can_be_copied_and_written(depth: int) -> None:
    found = orjson.loads(limit_depth(b'{"a":' * depth + b"1" + b"}" * depth))

    assert orjson.loads(orjson.dumps(found)) == copy_json(found)


@pytest.mark.parametrize(
    "raw", [b"{" * 1000, b'["' + b"[" * 1000, b'{"\\": [[[', b"}" * 1000, b'"' + b'\\"[' * 200_000]
)
def test_text_that_is_no_json_ends(raw: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(limit_depth(raw))
