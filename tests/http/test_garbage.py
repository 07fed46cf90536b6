"""Connections that end leave no cycles behind: such garbage holds TLS state until everything is searched."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchword.api.resources import CONFIG_MAPS
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.http.connection import ServerConnection
from watchword.http.request_parser import RequestParser
from watchword.kube.connect import connect
from watchword.kube.connection import ClientConnection, ResponseParser
from watchword.kube.watch_stream import WatchQuery, watch_events

pytestmark = pytest.mark.real_time

CONNECTIONS = (ServerConnection, RequestParser, ClientConnection, ResponseParser)


@contextmanager
def kept_garbage() -> Iterator[list[str]]:
    """Return the connections that only a collection would free."""
    gc.collect()
    gc.disable()
    found: list[str] = []
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += [type(obj).__name__ for obj in gc.garbage if isinstance(obj, CONNECTIONS)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def test_watch_that_is_cut_leaves_no_connection_to_the_collector(tmp_path: Path) -> None:
    instance = Instance(InstanceSettings(tmp_path, port=0, in_memory=True), lambda: datetime.now(UTC))
    await instance.start()
    with kept_garbage() as found:
        client = connect(instance.kubeconfig)
        events = watch_events(client, CONFIG_MAPS, WatchQuery(send_initial_events=True))
        async with aclosing(events):
            await anext(events)
        await client.list(CONFIG_MAPS)
        await client.close()
        del events, client
        await instance.stop()  # once it has noticed that its client is gone

    assert found == []
