"""The real control plane as a backend of the `plane` fixtures."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from watchword.kube.client import Client
from watchword.runtime.clock import Clock, SystemClock
from watchword.testing.assets import Assets
from watchword.testing.credentials import connect_by_certificate
from watchword.testing.kube_control_plane import KubeControlPlane
from watchword.testing.plane import Stop
from watchword.testing.process import ChildProcess
from watchword.testing.subprocess_backend import webhook_flags

COMMON = frozenset(
    {
        "certificatesigningrequest-signing-controller",
        "clusterrole-aggregation-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "serviceaccount-controller",
    }
)
"""Controllers that affect no test and are started once, because their start takes longer than most tests."""


@dataclass
class KubeApiserverBackend:
    """etcd and kube-apiserver, reached over HTTPS."""

    cluster: KubeControlPlane
    name: str = "kube-apiserver"
    clock: Clock = field(default_factory=SystemClock)
    run_id: str = field(default_factory=lambda: secrets.token_hex(3))
    common: ChildProcess | None = None

    @property
    def server(self) -> str:
        """The URL."""
        return self.cluster.server

    @property
    def ca_pem(self) -> bytes:
        """The CA that clients must trust."""
        return self.cluster.credentials.ca_pem

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        """Return a new client with a certificate of this user."""
        return connect_by_certificate(self.server, self.cluster.credentials, user, groups)

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        """Write a kubeconfig of this user."""
        return self.cluster.credentials.kubeconfig(self.server, user, groups)

    async def restart(self, *, kill: bool) -> None:
        """End kube-apiserver and start it again; etcd keeps its data."""
        await asyncio.to_thread(self.cluster.stop_api_server, kill=kill)
        await asyncio.to_thread(self.cluster.start)

    async def rotate_signing_key(self, *, keep_old: bool) -> None:
        """Restart kube-apiserver with a new key for service account tokens."""
        self.cluster.credentials.rotate_signing_key(keep_old=keep_old)
        await self.restart(kill=False)

    def stored_objects(self) -> Iterable[tuple[str, bytes]]:
        """Yield nothing: another process stores the objects."""
        return ()

    async def start_controllers(self, names: Sequence[str]) -> Stop:
        """Run these controllers; those that every cluster has run once for all tests."""
        if not set(names) <= COMMON:
            return self.cluster.start_controllers(names).stop
        if self.common is None:
            self.common = self.cluster.start_controllers(sorted(COMMON))
        return lambda: None


@contextmanager
def open_kube_apiserver(
    assets: Assets, folder: Path, *, token_webhook: Path | None = None
) -> Iterator[KubeApiserverBackend]:
    """Start a real control plane and stop it at the end."""
    flags = [*webhook_flags(token_webhook), "--authentication-token-webhook-version=v1"] if token_webhook else []
    cluster = KubeControlPlane(assets, folder, api_flags=flags)
    try:
        cluster.start()
        backend = KubeApiserverBackend(cluster)
        yield backend
        if backend.common is not None:
            backend.common.stop()
    finally:
        cluster.stop()
