"""Publishes what an agent writes, and requests tokens of service accounts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from uuid import uuid4

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.kube.errors import TimedOut
from watchword.registration.grpc.client.channel import EventChannel, make_refusal, run_apart
from watchword.registration.grpc.client.object_events import agent_event
from watchword.registration.grpc.client.object_store import ObjectStore, ObjectSubscription, StoredObject
from watchword.registration.grpc.cloud_events import Action, Attribute, CloudEvent, DataType, EventType, SubResource

ANSWER_SECONDS = 10.0
TOKEN_REQUEST = EventType(DataType.TOKEN_REQUEST, SubResource.SPEC, Action.CREATE)


class TokenRequester(Struct, frozen=True):
    """Sends one token request at a time over a subscription of its own."""

    channel: EventChannel

    async def request(self, account: ObjectKey, body: Object) -> Object:
        """Return the TokenRequest with its answer; raises the server's refusal, or `TimedOut`."""
        request_id = str(uuid4())  # the UID is the only field by which the answer can be recognised
        metadata = {"name": account.name, "namespace": account.namespace, "uid": request_id}
        spec = {name: value for name, value in (body.get("spec") or {}).items() if value}
        wanted: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        wanted |= {"metadata": metadata, "spec": spec}
        event = agent_event(TOKEN_REQUEST, self.channel.cluster, {Attribute.RESOURCE_ID: request_id}, wanted)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await run_apart(self._exchange(event, request_id))
        except TimeoutError as cause:
            raise TimedOut(f"the hub did not answer the token request within {ANSWER_SECONDS:g} seconds") from cause
        return {**answer, "metadata": {"name": account.name, "namespace": account.namespace}}

    async def _exchange(self, event: CloudEvent, request_id: str) -> Object:
        async with self.channel.subscribe(DataType.TOKEN_REQUEST) as subscription:
            await self.channel.publish(event)
            async for received in subscription.events:
                answer = received.json() if received.data else {}
                if uid_of(answer) == request_id:
                    return answer
        raise TimedOut("the hub ended the subscription before it answered the token request")


ECHO_SECONDS = 2.0
"""How long a second write of an object waits for the hub's version of the first; the hub refuses older versions."""


class ObjectWriter(Struct, frozen=True):
    """Publishes one change of a kind at a time."""

    channel: EventChannel
    locks: dict[DataType, asyncio.Lock] = field(default_factory=dict)

    async def create(self, following: ObjectSubscription, type_: EventType, obj: Object) -> Object:
        """Create an object; returns it as the hub sends it, or as it was sent where the kind is not followed."""
        store = following.store
        await self.channel.publish(store.codec.encode(type_, obj, self.channel.cluster))
        is_followed = following.is_open  # a watch may have begun meanwhile, and its reader would create it again
        stored = await _wait_for(store, ObjectKey.of(obj), lambda found: found is not None) if is_followed else None
        return obj if stored is None else stored.object

    async def change(
        self, store: ObjectStore, key: ObjectKey, type_: EventType, change: Callable[[Object], Object]
    ) -> StoredObject:
        """Change an object; a refusal when it is not there, or was changed or replaced meanwhile."""
        async with self.locks.setdefault(store.codec.data_type, asyncio.Lock()):
            stored = await self._find_settled(store, key)
            if stored is None:
                resource = store.codec.resource.group_resource
                raise make_refusal(404, "NotFound", f"{resource} {key.name!r} not found")
            present = stored.object
            changed = change(present)
            _require_same_version(present, changed, key)
            known = {**changed, "metadata": {**changed["metadata"], "resourceVersion": stored.version}}
            await self.channel.publish(store.codec.encode(type_, known, self.channel.cluster))
            latest = store.find(key)
            if latest is None or latest.revision != stored.revision:
                return latest or stored  # the hub's result was faster
            return store.write(stored, changed)

    async def _find_settled(self, store: ObjectStore, key: ObjectKey) -> StoredObject | None:
        if not store.codec.returns_writes:
            return store.find(key)
        return await _wait_for(store, key, lambda found: found is None or not found.is_written)


async def _wait_for(
    store: ObjectStore, key: ObjectKey, is_settled: Callable[[StoredObject | None], bool]
) -> StoredObject | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ECHO_SECONDS):
            while not is_settled(store.find(key)):
                await store.wait_changed()
    return store.find(key)


def _require_same_version(present: Object, changed: Object, key: ObjectKey) -> None:
    for name in ("uid", "resourceVersion"):
        wanted = changed["metadata"].get(name)
        if wanted and wanted != present["metadata"].get(name):
            message = f"{key} was changed or replaced meanwhile: read it again"
            raise make_refusal(409, "Conflict", message)
