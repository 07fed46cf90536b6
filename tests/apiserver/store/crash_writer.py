"""A process of concurrent writers that says what it tries and what was acknowledged, until it is killed."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from watchword.apiserver.store.errors import Stale
from watchword.apiserver.store.model import Change
from watchword.apiserver.store.sqlite import SqliteStore

WRITERS = 8
OBJECTS = 20


def _always(body: bytes) -> Callable[[int], bytes]:
    return lambda _: body


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write_forever(store: SqliteStore, writer: int, dice: random.Random) -> None:
    for number in range(1_000_000):
        path = f"ns/{dice.randrange(OBJECTS)}"
        latest = store.latest("things", path)
        deleted = latest is not None and dice.random() < 0.2
        body = f"{writer}-{number}-{os.getpid()}".encode()
        say("try", path, body.decode())
        change = Change("things", path, latest.revision if latest else 0, _always(body), deleted=deleted)
        try:
            record = await store.write(change)
        except Stale:
            continue
        say("ack", path, record.revision, body.decode(), int(deleted))


async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    dice = random.Random(int(sys.argv[2]))
    say("ready", store.revision)
    await asyncio.gather(*(write_forever(store, writer, dice) for writer in range(WRITERS)))


asyncio.run(main())
