"""One time limit holds for all objects that a command waits for."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from watchword.admin.errors import NotReady
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")


def is_there(found: Object | None) -> str:
    return "" if found else "it is not there"


async def test_objects_share_the_time_and_each_is_looked_at(plane: Plane) -> None:
    client, loop = plane.client(), asyncio.get_running_loop()
    late, present = (ObjectKey("default", name) for name in ("late", "present"))
    await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(present))
    waiter, began = ObjectWaiter(client, timedelta(minutes=5)), loop.time()

    for _ in range(3):
        with pytest.raises(NotReady, match="it is not there, still after 5m0s: create it"):
            await waiter.until(CONFIG_MAPS, late, is_there, advice="create it")
    found = await waiter.until(CONFIG_MAPS, present, is_there, advice="")

    assert found["metadata"]["name"] == "present"
    assert loop.time() - began < 2 * waiter.patience.total_seconds()  # virtual
