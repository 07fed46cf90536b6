"""How long a revoked credential is still honoured: on sockets, by a client that goes on to show it."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tests.simulation.secret_leaks import capture_log

from bench.reliability.credentials import CredentialKind, HeldCredential
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import ADDON, CredentialFleet, FleetSize, open_credential_fleet
from bench.reliability.grpc_stream import open_grpc_stream
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import ObjectKey
from watchword.api.names import CLUSTER_LEASE
from watchword.api.resources import (
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    SERVICE_ACCOUNTS,
)
from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Forbidden, Unauthorized
from watchword.runtime.event_loop import new_loop
from watchword.testing.kube_apiserver_backend import find_assets, open_kube_apiserver
from watchword.testing.plane import Backend, Plane
from watchword.testing.subprocess_backend import open_subprocess

LIMITS = {"embedded": 1.0, "kube-apiserver": 10.0}
"""Seconds; a real kube-apiserver may honour a token from its cache for ten."""

GRPC_STREAM = "cluster over gRPC, denied: its open stream"
POLL_EVERY, PATIENCE = 0.02, 60.0  # seconds
Request = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Revocation:
    """What an administrator does, and what the holder of the old credential goes on to ask."""

    name: str
    revoke: Request
    ask: Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--plane", choices=sorted(LIMITS), default="embedded", help="the control plane")
    parser.add_argument("--rounds", type=int, default=3, help="how many fleets, one after the other")


def measure(options: argparse.Namespace) -> Figure:
    """Return the longest time for which each revoked credential was honoured."""
    limit = LIMITS[options.plane]
    with (
        capture_log(),
        tempfile.TemporaryDirectory(prefix="watchword-bar-") as folder,
        _open(options.plane, Path(folder)) as backend,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        took = runner.run(_rounds(backend, options.rounds))
    rows = [(name, f"{min(found):.2f} s", f"{max(found):.2f} s") for name, found in took.items()]
    longest = max(max(found) for found in took.values())
    line = f"{options.plane}: a revoked credential was honoured for at most {longest:.2f} s (bar: {limit:g} s)"
    return Figure(line, longest <= limit, markdown_table(("revocation", "fastest", "slowest"), rows))


@contextmanager
def _open(plane: str, folder: Path) -> Iterator[Backend]:
    if plane == "embedded":
        with open_subprocess(folder) as process:
            yield process
    else:
        with open_kube_apiserver(find_assets(), folder) as real:
            yield real


async def _rounds(backend: Backend, rounds: int) -> dict[str, list[float]]:
    plane = Plane(backend, private=True)
    took: dict[str, list[float]] = defaultdict(list)
    try:
        for _ in range(rounds):
            async with open_credential_fleet(plane, FleetSize(lifetime=timedelta(hours=2))) as fleet:
                for revocation in await _revocations(fleet):
                    took[revocation.name].append(await _seconds_honoured(revocation))
                took[GRPC_STREAM].append(await _seconds_streamed(fleet))
    finally:
        await plane.close()
    return took


async def _revocations(fleet: CredentialFleet) -> list[Revocation]:
    """Return every revocation; the cluster's own comes last, for it ends what depends on it."""
    client, (cluster, _) = fleet.client, fleet.harness.clusters[-2:]
    own, addon, account, pull = [
        (await _first(fleet, kind)).client(fleet.plane)
        for kind in (
            CredentialKind.CLUSTER,
            CredentialKind.ADDON_TOKEN,
            CredentialKind.ACCOUNT,
            CredentialKind.PULL_SECRET,
        )
    ]
    account_key = fleet.places_of(CredentialKind.ACCOUNT)[0].secret
    builder = ObjectKey(fleet.namespace, "builder-0")
    denied = {"spec": {"hubAcceptsClient": False}}
    return [
        await _join_token(fleet),
        Revocation(
            "pull secret, its ServiceAccount deleted",
            lambda: client.delete(SERVICE_ACCOUNTS, builder),
            lambda: who_am_i(pull),
        ),
        Revocation(
            "managed service account, deleted",
            lambda: client.delete(MANAGED_SERVICE_ACCOUNTS, account_key),
            lambda: who_am_i(account),
        ),
        Revocation(
            "add-on, disabled",
            lambda: client.delete(MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, ADDON)),
            lambda: who_am_i(addon),
        ),
        Revocation(
            "cluster, denied",
            lambda: client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), denied),
            lambda: own.get(LEASES, ObjectKey(cluster, CLUSTER_LEASE)),
        ),
    ]


async def _seconds_streamed(fleet: CredentialFleet) -> float:
    """Deny a cluster that has an open stream at a gRPC server, and return for how long the stream stays open."""
    name = fleet.harness.clusters[-1]
    denied = {"spec": {"hubAcceptsClient": False}}
    async with open_grpc_stream(fleet.plane, name) as ask:
        deny = Revocation(
            GRPC_STREAM, lambda: fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), denied), ask
        )
        return await _seconds_honoured(deny)


async def _first(fleet: CredentialFleet, kind: CredentialKind) -> HeldCredential:
    held = await fleet.places_of(kind)[0].read(fleet.plane)
    assert held is not None
    return held


async def _join_token(fleet: CredentialFleet) -> Revocation:
    """Create a bootstrap token and return its deletion."""
    token, store, now = BootstrapToken.generate(), TokenStore(fleet.client), fleet.plane.clock.now()
    await store.create(TokenRecord(token, expires=now + timedelta(hours=1), groups=(MANAGED_CLUSTER_GROUP,)))
    holder = HeldCredential(now, now + timedelta(hours=1), token=token.reveal()).client(fleet.plane)
    return Revocation("join token, deleted", lambda: store.delete(token.id), lambda: who_am_i(holder))


async def _seconds_honoured(revocation: Revocation) -> float:
    """Revoke, ask until refused, and return how long after the revocation the last honoured request was sent."""
    await revocation.ask()
    started = honoured = time.monotonic()
    await revocation.revoke()
    async with asyncio.timeout(PATIENCE):
        while True:
            sent = time.monotonic()
            try:
                await revocation.ask()
            except (Unauthorized, Forbidden):
                return honoured - started
            honoured = sent
            await asyncio.sleep(POLL_EVERY)
