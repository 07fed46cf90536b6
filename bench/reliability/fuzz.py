"""Fuzzing: damaged input for every decoder, the API and every reconcile loop; nothing may go unhandled.

The same number of cases is the same input: seeds are fixed, and a finding names the input that caused it.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pool
from random import Random

from tests.fuzz.hostile_objects import READERS, draw_object

from bench.reliability.decoder import Decoder
from bench.reliability.decoders import DECODERS
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fuzzed_objects import fuzz_reconcilers
from bench.reliability.fuzzed_requests import fuzz_requests
from bench.reliability.mutation import mutate

REQUESTS, RECONCILES, OBJECTS = "API requests", "reconcile loops", "stored objects"
BATCH = {REQUESTS: 500, RECONCILES: 300, OBJECTS: 2_000}
SHARE = {REQUESTS: 0.03, RECONCILES: 0.02, OBJECTS: 0.3}  # of all cases: the first cost a hundred times more
DECODER_BATCH = 2_000
SLOWEST = 5.0  # seconds that one input may take


@dataclass(frozen=True, slots=True)
class Batch:
    """Cases of one target that are drawn from one seed."""

    target: str
    number: int
    cases: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--cases", type=int, default=1_000_000, help="in all (default: %(default)s)")
    parser.add_argument("--only", help=f"one target only: a decoder's name, {', '.join(SHARE)}")
    parser.add_argument("--jobs", type=int, default=2, help="processes")


def measure(options: argparse.Namespace) -> Figure:
    """Return how many cases went unhandled, with the cases of each target."""
    batches = [batch for batch in _batches(options.cases) if options.only in (None, batch.target)]
    done: Counter[str] = Counter()
    findings: list[str] = []
    with Pool(options.jobs) as pool:
        for batch, found in pool.imap_unordered(_run, batches):
            done[batch.target] += batch.cases
            findings += found
    line = f"{len(findings)} of {done.total()} cases went unhandled"
    table = markdown_table(("target", "cases"), sorted(done.items()))
    return Figure(line, not findings and bool(done), "\n".join([table, *findings[:20]]))


def _batches(cases: int) -> Iterator[Batch]:
    for target, share in SHARE.items():
        yield from _split(target, int(cases * share), BATCH[target])
    left = cases - sum(int(cases * share) for share in SHARE.values())
    names = list(DECODERS)
    for place, name in enumerate(names):
        yield from _split(name, left // len(names) + (place < left % len(names)), DECODER_BATCH)


def _split(target: str, cases: int, size: int) -> Iterator[Batch]:
    for number, start in enumerate(range(0, cases, size)):
        yield Batch(target, number, min(size, cases - start))


def _run(batch: Batch) -> tuple[Batch, list[str]]:
    random = Random(f"{batch.target} {batch.number}")
    if batch.target == REQUESTS:
        return batch, fuzz_requests(batch.cases, random)
    if batch.target == RECONCILES:
        return batch, fuzz_reconcilers(batch.cases, random)
    if batch.target == OBJECTS:
        return batch, list(fuzz_readers(batch.cases, random))
    return batch, list(fuzz_decoder(batch.target, DECODERS[batch.target], batch.cases, random))


def fuzz_readers(cases: int, random: Random) -> Iterator[str]:
    """Read hostile objects as they could be stored; yield what a reader did not handle, or what took too long."""
    kinds = list(READERS)
    for number in range(cases):
        kind = kinds[number % len(kinds)]
        obj, started = draw_object(kind, random), time.process_time()
        try:
            READERS[kind](obj)
        except Exception as error:  # noqa: BLE001 - what a reader does not handle is the finding
            yield f"{kind}: {type(error).__name__}: {error} for {str(obj)[:2000]}"
        if time.process_time() - started > SLOWEST:
            yield f"{kind}: took longer than {SLOWEST:g} s for {str(obj)[:2000]}"


def fuzz_decoder(name: str, decoder: Decoder, cases: int, random: Random) -> Iterator[str]:
    """Decode damaged input; yield what was neither decoded nor refused, or took too long."""
    for _ in range(cases):
        data = mutate(decoder.seeds, random)
        started = time.process_time()
        try:
            decoder.decode(data)
        except decoder.refusals:
            pass
        except Exception as error:  # noqa: BLE001 - what a decoder does not handle is the finding
            yield f"{name}: {type(error).__name__}: {error} for {data!r}"
        if time.process_time() - started > SLOWEST:
            yield f"{name}: took longer than {SLOWEST:g} s for {data!r}"
