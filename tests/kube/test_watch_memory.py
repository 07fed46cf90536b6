"""A collection is held once: by the reader of a watch, not by the watch itself."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing

import pytest

from watchword.api.resources import CONFIG_MAPS
from watchword.kube.watch import Snapshot, WatchOptions, list_and_watch
from watchword.testing.builders import a_config_map
from watchword.testing.plane import Plane


@pytest.mark.planes("embedded")
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "listed"])
async def test_snapshot_is_released_once_it_is_delivered(plane: Plane, streamed: bool) -> None:  # noqa: FBT001 - a row
    namespace = await plane.namespace()
    await plane.client().create(CONFIG_MAPS, a_config_map("large", namespace=namespace))
    options = WatchOptions(send_initial_events=streamed)
    async with aclosing(list_and_watch(plane.client(), CONFIG_MAPS, namespace=namespace, options=options)) as facts:
        assert isinstance(await anext(facts), Snapshot)

        waiting = asyncio.ensure_future(anext(facts))
        await asyncio.sleep(1)

        # only ours: other tests of this process may hold theirs
        assert not [
            s for s in gc.get_objects() if isinstance(s, Snapshot) and any(b'"large"' in raw for raw in s.items)
        ]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
