"""A process of concurrent writers that prints attempts and acknowledgements until it is killed."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from watchword.apiserver.store.model import RevisionConflict, StoreChange
from watchword.apiserver.store.sqlite import RENEWAL_BUCKET, SqliteStore

WRITERS = 8
OBJECTS = 20
BUCKETS = ("things", RENEWAL_BUCKET)  # of renewals several commit together


def _always(body: bytes) -> Callable[[int], bytes]:
    return lambda _: body


def print_line(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write_forever(store: SqliteStore, writer: int, rng: random.Random) -> None:
    for number in range(1_000_000):
        bucket, path = rng.choice(BUCKETS), f"ns/{rng.randrange(OBJECTS)}"
        latest = store.latest(bucket, path)
        deleted = latest is not None and rng.random() < 0.2
        body = f"{writer}-{number}-{os.getpid()}".encode()
        print_line("try", bucket, path, body.decode())
        change = StoreChange(bucket, path, latest.revision if latest else 0, _always(body), deleted=deleted)
        try:
            record = await store.write(change)
        except RevisionConflict:
            continue
        print_line("ack", bucket, path, record.revision, body.decode(), int(deleted))


async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    rng = random.Random(int(sys.argv[2]))
    print_line("ready", store.revision)
    await asyncio.gather(*(write_forever(store, writer, rng) for writer in range(WRITERS)))


asyncio.run(main())
