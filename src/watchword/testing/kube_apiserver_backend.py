"""The real control plane as a backend of the `plane` fixtures."""

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from watchword.kube.client import Client
from watchword.runtime.clock import Clock, SystemClock
from watchword.testing.credentials import ADMIN, ADMIN_GROUPS, ClusterCredentials, connect_by_certificate
from watchword.testing.errors import AssetsMissing
from watchword.testing.plane import Stop
from watchword.testing.process import ChildProcess, await_ready, free_port
from watchword.testing.subprocess_backend import webhook_flags

KUBERNETES_VERSION = "v1.35.4"
"""The release that `make envtest` builds and the suites run on unless VERSION names another."""

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
AUDIT_VARIABLE = "WATCHWORD_AUDIT_FOLDER"
VERSION_VARIABLE = "ENVTEST_K8S_VERSION"
RELEASE = re.compile(r"v1\.\d{1,3}\.\d{1,3}")
REQUIRED = ("etcd", "kube-apiserver")


class Assets(Struct, frozen=True):
    """The binaries of a real control plane."""

    folder: Path
    etcd: Path

    @property
    def kube_apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    def companion(self, name: str) -> Path:
        """Return kube-controller-manager, kubectl or kubeadm; `AssetsMissing` when it was not built."""
        path = self.folder / name
        if not path.is_file():
            raise AssetsMissing(f"{path} is missing: run `make envtest`")
        return path


def chosen_release(environment: Mapping[str, str] = os.environ) -> str:
    """Return the release that `ENVTEST_K8S_VERSION` names, else the default; `AssetsMissing` when it is not one."""
    named = environment.get(VERSION_VARIABLE) or KUBERNETES_VERSION
    if not RELEASE.fullmatch(named):
        raise AssetsMissing(f"{VERSION_VARIABLE}={named!r} is no release: write it as {KUBERNETES_VERSION}")
    return named


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that `make envtest` fills, one per release."""
    root = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "watchword" / "envtest" / chosen_release(environment)


def find_assets(environment: Mapping[str, str] = os.environ) -> Assets:
    """Return what `KUBEBUILDER_ASSETS` names or `make envtest` built; `AssetsMissing` otherwise."""
    named = environment.get(ASSETS_VARIABLE)
    folder = Path(named) if named else cache_folder(environment)
    if not (folder / "kube-apiserver").is_file():
        where = f"{ASSETS_VARIABLE}={named} has no kube-apiserver" if named else "no kube-apiserver was built"
        raise AssetsMissing(f"{where}: run `make envtest` or point {ASSETS_VARIABLE} at a folder with {REQUIRED}")
    etcd = find_etcd(folder, environment)
    if etcd is None:
        raise AssetsMissing(f"etcd is missing: put it into {folder} or on the PATH, or run `make envtest`")
    return Assets(folder, etcd)


def find_etcd(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return etcd from the API server's folder, else from the search path."""
    beside = folder / "etcd"
    if beside.is_file():
        return beside
    found = shutil.which("etcd", path=environment.get("PATH"))
    return Path(found) if found else None


ISSUER = "https://kubernetes.default.svc"


class KubeControlPlane:
    """One etcd and one kube-apiserver with TLS, RBAC, bootstrap tokens and service-account keys."""

    def __init__(self, assets: Assets, folder: Path, *, api_flags: Sequence[str] = (), durable: bool = False) -> None:
        self._assets = assets
        self._folder = folder
        self.data = folder / "etcd"
        self._api_flags = tuple(api_flags)
        self._durable = durable  # a test's data need not survive a crash; a benchmark must include the cost of fsync
        self._port, self._etcd_port, self._peer_port = free_port(), free_port(), free_port()
        self._etcd: ChildProcess | None = None
        self._api: ChildProcess | None = None
        self.server = f"https://127.0.0.1:{self._port}"
        self.credentials = ClusterCredentials.make(folder)
        self.kubeconfig = self.credentials.kubeconfig(self.server, ADMIN, ADMIN_GROUPS)

    def start(self) -> None:
        """Start what is not running and return once the API server is ready."""
        if self._etcd is None:
            self._etcd = ChildProcess(self._etcd_command(), self._folder / "etcd.log")
        if self._api is None:
            self._api = ChildProcess(self._api_command(), self._folder / "kube-apiserver.log")
        await_ready(self.server, self.credentials.trust, self._etcd, self._api)

    def stop_api_server(self, *, kill: bool) -> None:
        """End the API server, gracefully or as a crash does; etcd keeps its data."""
        if self._api is not None:
            self._api.kill() if kill else self._api.stop()
            self._api = None

    def stop(self) -> None:
        self.stop_api_server(kill=False)
        if self._etcd is not None:
            self._etcd.stop()
            self._etcd = None

    def start_controllers(self, names: Sequence[str]) -> ChildProcess:
        """Start kube-controller-manager with exactly these controllers; the caller stops it."""
        folder = self._folder
        config = self.credentials.kubeconfig(self.server, "system:kube-controller-manager", ADMIN_GROUPS)
        command: list[str | Path] = [
            self._assets.companion("kube-controller-manager"),
            f"--kubeconfig={config}",
            f"--controllers={','.join(names)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cluster-signing-cert-file={folder}/ca.crt",
            f"--cluster-signing-key-file={folder}/ca.key",
            f"--service-account-private-key-file={folder}/sa.key",
            f"--root-ca-file={folder}/ca.crt",
        ]
        return ChildProcess(command, folder / "kube-controller-manager.log")

    @property
    def etcd_endpoint(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def processes(self) -> tuple[ChildProcess, ...]:
        return tuple(process for process in (self._etcd, self._api) if process is not None)

    def _etcd_command(self) -> list[str | Path]:
        peer = f"http://127.0.0.1:{self._peer_port}"
        return [
            self._assets.etcd,
            f"--data-dir={self.data}",
            f"--listen-client-urls={self.etcd_endpoint}",
            f"--advertise-client-urls={self.etcd_endpoint}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            *([] if self._durable else ["--unsafe-no-fsync"]),
        ]

    def _api_command(self) -> list[str | Path]:
        folder = self._folder
        return [
            self._assets.kube_apiserver,
            f"--etcd-servers={self.etcd_endpoint}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--tls-cert-file={folder}/server.crt",
            f"--tls-private-key-file={folder}/server.key",
            f"--client-ca-file={folder}/ca.crt",
            f"--service-account-key-file={folder}/sa.pub",
            f"--service-account-signing-key-file={folder}/sa.key",
            f"--service-account-issuer={ISSUER}",
            "--authorization-mode=RBAC",
            "--enable-bootstrap-token-auth",
            "--service-cluster-ip-range=10.0.0.0/16",
            *self._api_flags,
        ]


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
        return self.cluster.server

    @property
    def ca_pem(self) -> bytes:
        return self.cluster.credentials.ca_pem

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        return connect_by_certificate(self.server, self.cluster.credentials, user, groups)

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        return self.cluster.credentials.kubeconfig(self.server, user, groups)

    async def restart(self, *, kill: bool) -> None:
        await asyncio.to_thread(self.cluster.stop_api_server, kill=kill)
        await asyncio.to_thread(self.cluster.start)

    async def rotate_signing_key(self, *, keep_old: bool) -> None:
        self.cluster.credentials.rotate_signing_key(keep_old=keep_old)
        await self.restart(kill=False)

    async def start_controllers(self, names: Sequence[str]) -> Stop:
        """Run these controllers; those that every cluster has run once for all tests."""
        if not set(names) <= COMMON:
            return self.cluster.start_controllers(names).stop
        if self.common is None:
            self.common = self.cluster.start_controllers(sorted(COMMON))
        return lambda: None


def audit_flags(logs: Path, folder: Path) -> list[str]:
    """Let the server write what ServiceAccounts request into a folder, one file for each server."""
    policy = folder / "audit-policy.yaml"
    groups = "[system:serviceaccounts]"
    rules = f"rules:\n- level: Metadata\n  userGroups: {groups}\n  omitStages: [RequestReceived]\n- level: None\n"
    policy.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}")
    logs.mkdir(parents=True, exist_ok=True)
    return [f"--audit-policy-file={policy}", f"--audit-log-path={logs}/{secrets.token_hex(8)}.log"]


@contextmanager
def open_kube_apiserver(
    assets: Assets, folder: Path, *, token_webhook: Path | None = None
) -> Iterator[KubeApiserverBackend]:
    flags = [*webhook_flags(token_webhook), "--authentication-token-webhook-version=v1"] if token_webhook else []
    audited = os.environ.get(AUDIT_VARIABLE)
    flags += audit_flags(Path(audited), folder) if audited else []
    cluster = KubeControlPlane(assets, folder, api_flags=flags)
    try:
        cluster.start()
        backend = KubeApiserverBackend(cluster)
        yield backend
        if backend.common is not None:
            backend.common.stop()
    finally:
        cluster.stop()
