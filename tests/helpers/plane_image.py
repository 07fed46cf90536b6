"""Installs what most tests need once in each process, and copies it into every later control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import orjson
from msgspec import Struct

from watchword.api.conditions import is_true
from watchword.api.meta import Object
from watchword.apiserver.serving.object_storage import encode_object
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import StoreChange, StoreEvent
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import VirtualClock

Place = tuple[str, str]  # bucket and path
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
OF_CONTROLLERS = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}  # of each namespace
CONTROLLERS_SECONDS = 0.01  # of virtual time: controllers are done with what was copied


class Image(Struct, frozen=True):
    """The objects of an installation, and the virtual time at its end."""

    objects: Mapping[Place, Object]
    at: float


_images: dict[tuple[str, bool], Image] = {}


async def install_once(plane: Plane, name: str, install: Callable[[], Awaitable[None]]) -> None:
    """Install, or copy what was installed under this name before: 8 ms of processor time instead of 70 for a fleet."""
    store, loop, is_virtual = plane.store, asyncio.get_running_loop(), isinstance(plane.clock, VirtualClock)
    if store is None:
        await install()
        return
    image = _images.get((name, is_virtual))
    if image is None or any(store.get(*place) for place in image.objects):
        before = {(bucket, record.path) for bucket in store.buckets() for record in store.records(bucket)}
        await install()
        _images.setdefault((name, is_virtual), Image(_installed(store, before, with_status=is_virtual), loop.time()))
        return
    await _copy(image, store)
    if is_virtual:
        await asyncio.sleep(max(image.at - loop.time(), CONTROLLERS_SECONDS))


def _installed(store: MemoryStore, before: set[Place], *, with_status: bool) -> dict[Place, Object]:
    """Return what is new, in the order in which it was stored, without what controllers make of it."""
    records = [record for bucket in store.buckets() for record in store.records(bucket)]
    records.sort(key=lambda record: record.revision)
    own = [record for record in records if (record.bucket, record.path.rpartition("/")[2]) not in OF_CONTROLLERS]
    found = {(record.bucket, record.path): orjson.loads(record.body) for record in own}
    for place, obj in found.items():
        if place[0] == DEFINITIONS and not with_status:  # the control plane writes it once it serves the kind
            del obj["status"]
    return {place: obj for place, obj in found.items() if place not in before}


async def _copy(image: Image, store: MemoryStore) -> None:
    """Store the objects, and return once the kinds among them are served."""
    unserved, served = {path for bucket, path in image.objects if bucket == DEFINITIONS}, asyncio.Event()

    def note(event: StoreEvent) -> None:
        if is_true(orjson.loads(event.record.body), "Established"):
            unserved.discard(event.record.path)
        if not unserved:
            served.set()

    stop = store.subscribe(DEFINITIONS, note)
    for (bucket, path), obj in image.objects.items():
        await store.write(StoreChange(bucket, path, 0, partial(_encode, obj)))
    if unserved:
        await served.wait()
    stop()


def _encode(obj: Object, revision: int) -> bytes:
    return encode_object({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}})
