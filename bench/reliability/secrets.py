"""Secret bytes outside Secrets: every secret of a fleet is searched for wherever people and programs can read."""

from __future__ import annotations

import argparse
import asyncio
import base64
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
from tests.helpers.leak_search import Canary
from tests.simulation.settings import BACKGROUND_FAULTS, MINUTE

from bench.reliability.credentials import read_credential
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import CredentialFleet
from bench.reliability.life import SIZE, live_through, served_objects
from bench.reliability.virtual_run import VirtualRun, pass_time, run_and_capture
from watchword.api.bootstrap import KEY_TOKEN_SECRET
from watchword.api.meta import Object
from watchword.api.pull_secrets import DOCKERCFG_KEY
from watchword.api.resources import SECRETS

KEYS = ("tls.key", "pending.key")
WHAT = KEY, BOOTSTRAP_TOKEN, TOKEN, REGISTRY_PASSWORD = (
    "private key",
    "bootstrap token",
    "ServiceAccount token",
    "registry password",
)


@dataclass
class SecretSearch:
    """The secrets that were ever stored, and where something was searched."""

    canary: Canary = field(default_factory=Canary)
    known: dict[bytes, str] = field(default_factory=dict)
    searched: Counter[str] = field(default_factory=Counter)
    found: set[str] = field(default_factory=set)

    def learn(self, secret: Object) -> None:
        """Remember the secret values of a Secret."""
        for what, value in _secret_values(secret):
            if value not in self.known:
                self.known[value] = what
                self.canary.look_for(f"{what} {len(self.known)}", value)

    def search(self, place: str, text: bytes) -> None:
        """Search a text that people or programs can read."""
        self.searched[place] += 1
        self.found |= {f"{label} in {place}" for label in self.canary.found_in(text)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no option: the fleet is always the same."""
    del parser


def measure(options: argparse.Namespace) -> Figure:
    """Return how many secret values were found outside Secrets."""
    del options
    search, log = run_and_capture(_search, SIZE, VirtualRun(log_level=logging.DEBUG))
    for line in log.lines:
        search.search("log lines", line.encode())
    kinds = Counter(search.known.values())
    rows = [*((f"secret values: {what}", number) for what, number in sorted(kinds.items()))]
    rows += [(f"searched: {place}", number) for place, number in sorted(search.searched.items())]
    line = f"{len(search.found)} of {len(search.known)} secret values were found outside Secrets"
    table = "\n".join([markdown_table(("what", "number"), rows), *sorted(search.found)])
    return Figure(line, not search.found and len(kinds) == len(WHAT), table)


async def _search(fleet: CredentialFleet) -> SecretSearch:
    """Live with failing requests, learn every secret while it exists, and search everything in the end."""
    search = SecretSearch()
    for link in fleet.links.values():
        link.plans.append(BACKGROUND_FAULTS)
    learning = asyncio.create_task(_learn(fleet, search))
    await live_through(fleet)
    learning.cancel()
    async for kind, obj in served_objects(fleet):
        if kind is not SECRETS:
            search.search(f"{kind.kind} objects", orjson.dumps(obj))
    for metrics in fleet.metrics:
        search.search("metrics of programs", metrics.registry.exposition())
    return search


async def _learn(fleet: CredentialFleet, search: SecretSearch) -> None:
    while True:
        for secret in (await fleet.client.list(SECRETS)).items:
            search.learn(secret)
        await pass_time(MINUTE)


def _secret_values(secret: Object) -> Iterator[tuple[str, bytes]]:
    """Yield what is secret in a Secret; of a key, the first line that its armour protects."""
    data = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
    for name in KEYS:
        if lines := data.get(name, b"").splitlines()[1:2]:
            yield KEY, lines[0]
    if KEY_TOKEN_SECRET in data:
        yield BOOTSTRAP_TOKEN, data[KEY_TOKEN_SECRET]
    held = read_credential(secret)
    if held is not None and held.token:
        yield REGISTRY_PASSWORD if DOCKERCFG_KEY in data else TOKEN, held.token.encode()
