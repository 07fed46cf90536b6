"""The controllers of pull secrets with many accounts: first tokens, a day of renewals, and another signing key.

Run with `python -m bench.pull_secret_load`. The real controllers work on the embedded control plane, in one process and
in virtual time, so the day takes minutes, and the requests and their spread are the same on every machine.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

from bench.rig.run import bounded
from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.pull_secrets import CONFIGURATION
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from watchword.credentials.evidence import SignerTiming
from watchword.kube.transport import Transport
from watchword.pullsecrets.process import PullSecretOptions, run_pull_secrets
from watchword.runtime.logs import configure_logging
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import VirtualLoop

NAMESPACES_USED = 100
MINUTE, DAY = 60, 24 * 60 * 60
LIFETIME = timedelta(hours=12)


@dataclass
class CountingTransport:
    """Counts requests by verb and kind, and notes the instant of every token."""

    inner: Transport
    requests: Counter[str] = field(default_factory=Counter)
    tokens: list[float] = field(default_factory=list)

    async def send(self, request: Request) -> Response:
        """Count one request."""
        kind = request.path.split("/")[-1] if request.path.endswith("/token") else _kind_in(request.path)
        self.requests[f"{request.method} {kind}"] += 1
        if request.path.endswith("/token"):
            self.tokens.append(asyncio.get_running_loop().time())
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Count one watch."""
        self.requests["WATCH"] += 1
        return self.inner.stream(request)

    async def close(self) -> None:
        """Close the connection."""
        await self.inner.close()

    def take(self) -> tuple[Counter[str], list[float]]:
        """Return what was counted, and count from zero."""
        taken = self.requests, self.tokens
        self.requests, self.tokens = Counter(), []
        return taken


def _kind_in(path: str) -> str:
    parts = path.split("/")
    return parts[5] if len(parts) > 5 and parts[3] == "namespaces" else parts[-1]


@dataclass
class Load:
    """Controllers that run, and how long each phase took."""

    plane: Plane
    counted: CountingTransport
    accounts: int
    started: float = field(default_factory=time.perf_counter)

    async def fill(self) -> None:
        """Create the accounts, and wait as long as the limit of tokens in a second makes it last, and a while."""
        client = self.plane.client()
        names = [f"team-{number:03}" for number in range(NAMESPACES_USED)]
        await bounded(client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name))) for name in names)
        keys = [ObjectKey(names[number % len(names)], f"app-{number:05}") for number in range(self.accounts)]
        await bounded(client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key)) for key in keys)
        await asyncio.sleep(self.accounts / PullSecretOptions().requests_per_second + MINUTE)

    async def rotate(self, timing: SignerTiming) -> None:
        """Give the control plane another signing key, and wait until every token should be replaced."""
        await self.plane.rotate_signing_key()
        await asyncio.sleep((timing.settle + timing.spread + 3 * timing.poll).total_seconds())

    def report(self, phase: str, step: int) -> None:
        """Print the requests of a phase, and how evenly its tokens were asked for."""
        requests, tokens = self.counted.take()
        seconds, self.started = time.perf_counter() - self.started, time.perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        first = min(tokens, default=0.0)
        rates = Counter(int((at - first) // step) for at in tokens)
        mean = sum(rates.values()) / (max(rates, default=0) + 1)
        by_kind = ", ".join(f"{count} {kind}" for kind, count in requests.most_common())
        print(f"{phase}: {len(tokens)} tokens, {sum(requests.values())} requests ({by_kind})")
        print(f"  per {step} s: mean {mean:.1f}, most {max(rates.values(), default=0)}")
        print(f"  {seconds:.0f} s of real time; peak memory of server and controllers {peak:.0f} MiB", flush=True)


async def measure(accounts: int, timing: SignerTiming, folder: Path) -> None:
    """Run every phase."""
    async with open_embedded(folder, listening=False) as backend:
        plane = Plane(backend, private=True)
        admin = plane.client()
        await admin.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(CONFIGURATION.namespace)))
        data = {"registries": "registry.example:5000", "token-lifetime-seconds": str(int(LIFETIME.total_seconds()))}
        await admin.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CONFIGURATION, data=data))
        client = plane.fresh_client()
        counted = CountingTransport(client.transport)
        options = PullSecretOptions(elect=False, signer_timing=timing)
        work = run_pull_secrets(client.over(counted), options, clock=plane.clock, random=Random(1))
        running = asyncio.create_task(work)
        load = Load(plane, counted, accounts)
        await load.fill()
        load.report("first tokens", 1)
        await asyncio.sleep(DAY)
        load.report("a day", MINUTE)
        await load.rotate(timing)
        load.report(f"another signing key, spread over {timing.spread.total_seconds():g} s", 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await plane.close()


def main() -> None:
    """Read the flags and print one paragraph for each phase."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accounts", type=int, default=10_000)
    parser.add_argument("--signer-spread", type=int, default=300, help="seconds")
    flags = parser.parse_args()
    configure_logging(level="error")
    timing = SignerTiming(spread=timedelta(seconds=flags.signer_spread))
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(measure(flags.accounts, timing, Path(folder)))


if __name__ == "__main__":
    main()
