"""Requests tokens of service accounts: the answer comes as an event, for this connection alone."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.kube.errors import TimedOut
from watchword.registration.grpc.client.channel import EventChannel
from watchword.registration.grpc.client.object_events import Publication, creation
from watchword.registration.grpc.cloud_events import Attribute
from watchword.registration.grpc.event_types import DataType

ANSWER_SECONDS = 10.0


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
        publication = Publication(str(creation(DataType.TOKEN_REQUEST)), {Attribute.RESOURCE_ID: request_id}, wanted)
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self.channel.subscribe(DataType.TOKEN_REQUEST) as subscription,
            ):
                await self.channel.publish(publication.to_event(self.channel.source, self.channel.cluster))
                async for event in subscription.events:
                    answer = event.json() if event.data else {}
                    if uid_of(answer) == request_id:
                        return {**answer, "metadata": {"name": account.name, "namespace": account.namespace}}
        except TimeoutError as cause:
            raise TimedOut(f"the hub did not answer the token request within {ANSWER_SECONDS:g} seconds") from cause
        raise TimedOut("the hub ended the subscription before it answered the token request")
