"""kill -9 under concurrent writers: no acknowledged write is lost, and no other data appears."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from watchword.apiserver.store.model import StoreEvent
from watchword.apiserver.store.sqlite import RENEWAL_BUCKET, SqliteStore

ROUNDS = int(os.environ.get("WATCHWORD_CRASH_ROUNDS", "6"))
WRITER = Path(__file__).with_name("crash_writer.py")


@dataclass
class AcknowledgedWrites:
    """The output of the killed processes."""

    tried: set[str] = field(default_factory=set)
    acknowledged: dict[int, tuple[str, str, str, bool]] = field(default_factory=dict)

    def record_line(self, line: str) -> None:
        word, *rest = line.split()
        if word == "try" and len(rest) == 3:
            self.tried.add(rest[2])
        elif word == "ack" and len(rest) == 5:
            assert int(rest[2]) not in self.acknowledged, "one revision was acknowledged twice"
            self.acknowledged[int(rest[2])] = (rest[0], rest[1], rest[3], rest[4] == "1")


def crash_after(database: Path, acknowledgements: int, seed: int) -> AcknowledgedWrites:
    """Run writers, kill them in the middle of things, and note every complete line they got out."""
    command = [sys.executable, str(WRITER), str(database), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while sum(line.startswith("ack") for line in lines) < acknowledgements:
            line = process.stdout.readline()
            assert line, "the writers ended by themselves"
            lines.append(line)
        process.kill()
        lines.extend(process.stdout.read().splitlines(keepends=True))
    witness = AcknowledgedWrites()
    for line in lines:
        if line.endswith("\n"):
            witness.record_line(line)
    return witness


def as_printed(event: StoreEvent) -> tuple[str, str, str, bool]:
    return (event.record.bucket, event.record.path, event.record.body.decode(), event.deleted)


@pytest.mark.real_time
async def test_no_acknowledged_write_is_lost_and_no_phantom_appears(tmp_path: Path) -> None:
    rng, database, checked = random.Random(4711), tmp_path / "data.db", 0
    for round_number in range(ROUNDS):
        witness = crash_after(database, rng.randrange(5, 120), round_number)

        store = SqliteStore(database)
        events = [event for bucket in ("things", RENEWAL_BUCKET) for event in store.events_after(bucket, checked)]
        history = {event.revision: event for event in events}
        await store.close()

        assert sorted(history) == list(range(checked + 1, checked + len(history) + 1)), "a gap or a double"
        assert {event.record.body.decode() for event in history.values()} <= witness.tried
        for revision, said in witness.acknowledged.items():
            assert as_printed(history[revision]) == said
        checked = store.revision
