"""One control plane with a data directory and a socket: what `watchword apiserver` runs."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections import deque
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.http import Response
from watchword.apiserver.access.chain import StaticToken, TokenReviewer
from watchword.apiserver.access.config import AccessConfig, AccessControl, access_control_factory
from watchword.apiserver.access.pki_directory import ADMIN, PkiDirectory, write_private
from watchword.apiserver.access.service_accounts import TokenKeys
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.audit import AuditLog, record_event
from watchword.apiserver.background import BackgroundTasks, PeriodicTask
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.controllers.event_expiry import EVENT_TTL
from watchword.apiserver.listener import API_LIMITS, RequestRateLimiter, api_listener
from watchword.apiserver.node.model import NodeSettings, Runner, Workloads
from watchword.apiserver.node.pod_logs import PodLogHandler
from watchword.apiserver.serving.model import HandlerRequest, Now, Registry
from watchword.apiserver.store.encryption import read_encryption_keys
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import StoreOpenError
from watchword.apiserver.store.sqlite import SqliteStore, require_present
from watchword.http.limits import ServerLimits
from watchword.pki.jwt import TokenSigner

if TYPE_CHECKING:
    from watchword.apiserver.node.node import ProcessNode

log = logging.getLogger(__name__)

COMPACT_EVERY = 60.0
KEPT_COMPACTION_ROUNDS = 10
"""So many compaction rounds of the past are kept for watchers that come back."""
RENEW_EVERY = 3600.0
KUBECONFIG_NAME = "admin.kubeconfig"
BACKUP_PATH = "/watchword/backup"
"""RBAC guards it as a non-resource URL: of the built-in roles, only cluster-admin has the right to it."""
SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


class InstanceSettings(Struct, frozen=True):
    """What the operator decides."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 6443
    advertise: str = ""  # the name or address clients use; the host when empty
    audit_log: Path | None = None
    encryption_key_file: Path | None = None  # Secrets are encrypted in the data file when there is one
    synchronous: str = "FULL"
    max_bytes: int = 0
    in_memory: bool = False  # objects are lost at the end; keys and kubeconfig are files all the same
    limits: ServerLimits = API_LIMITS
    node: Workloads | None = None  # run these as processes of this machine
    event_ttl: timedelta = EVENT_TTL
    reviewer: TokenReviewer | None = None  # authenticates tokens that this control plane does not know
    runner: Runner | None = None  # runs the node's containers; None: as processes


class Instance:
    """Opens, serves, and closes again. Raises `StoreOpenError` when the data cannot be used."""

    def __init__(self, settings: InstanceSettings, now: Now) -> None:
        require_private_directory(settings.data_dir)
        self._settings = settings
        self._now = now
        self._compacted: deque[int] = deque(maxlen=KEPT_COMPACTION_ROUNDS)
        self._node: ProcessNode | None = None
        self.port = settings.port
        self._store = _open_store(settings)
        self.material = PkiDirectory(settings.data_dir / "pki", _hosts(settings), now, in_use=self._store.revision > 0)
        self._audit = AuditLog(settings.audit_log, now) if settings.audit_log is not None else None

    @property
    def server(self) -> str:
        host = self._settings.advertise or _reachable(self._settings.host)
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self._settings.data_dir / KUBECONFIG_NAME

    async def start(self) -> None:
        """Serve; returns once the first request can be handled."""
        clock = asyncio.get_running_loop().time
        self.plane = ControlPlane(
            self._store, self._now, self._compose_access, limit=RequestRateLimiter(clock), observe=self._audit
        )
        self.plane.background = BackgroundTasks(
            (
                PeriodicTask("compaction", COMPACT_EVERY, self._compact),
                PeriodicTask("certificate-renewal", RENEW_EVERY, self._renew),
            )
        )
        if self._audit is not None:
            self.plane.background.status["audit-log"] = self._audit.status
        await self.plane.start()
        self._listener = api_listener(self.plane.handle, lambda: self.material.context, self._settings.limits)
        self.port = await self._listener.start(self._settings.host, self._settings.port)
        write_private(self.kubeconfig, self._admin_kubeconfig())
        if isinstance(self._store, SqliteStore) and self._store.new_epoch is not None:
            await record_event(self.plane.registry, self._now(), self._store.new_epoch)
        if self._settings.node is not None:
            self._node = self._make_node(self._settings.node)
            await self._node.start()
        log.info("serving %s", self.server)

    async def stop(self) -> None:
        if self._node is not None:
            await self._node.stop()
        await self._listener.stop()
        await self.plane.stop()
        if self._audit is not None:
            self._audit.close()
        log.info("stopped %s", self.server)

    def _compose_access(self, registry: Registry) -> AccessControl:
        access = access_control_factory(self._rules(), now=self._now, entropy=os.urandom)(registry)
        if isinstance(self._store, SqliteStore):
            access = replace(access, paths={**access.paths, BACKUP_PATH: self._serve_backup})
        if self._settings.node is None:
            return access
        logs = PodLogHandler(registry, self._settings.data_dir / "pods")
        return replace(access, handlers={**access.handlers, ("", "pods", "log"): logs})

    async def _serve_backup(self, request: HandlerRequest) -> Response:
        """Answer with a copy of the data file; Secrets are encrypted in it as they are on disk."""
        assert isinstance(self._store, SqliteStore), "only then the path is served"
        if request.method != "GET":
            return Response(405, (("Allow", "GET"),))
        return Response(200, (("Content-Type", "application/vnd.sqlite3"),), await self._store.copy())

    def _rules(self) -> AccessConfig:
        return AccessConfig(
            token_keys=TokenKeys(self.material.token_key),
            authority=self.material.signing_authority,
            root_bundle=lambda: self.material.root_bundle,
            client_authorities=self.material.trusted,
            admin_tokens=(StaticToken(self.material.admin_token, ADMIN),),
            reviewer=self._settings.reviewer,
            event_ttl=self._settings.event_ttl,
        )

    def _make_node(self, workloads: Workloads) -> ProcessNode:
        from watchword.apiserver.node.node import ProcessNode
        from watchword.apiserver.node.processes import ProcessRunner

        rules = self._rules()
        issuer = TokenIssuer(rules.issuer, TokenSigner(rules.token_keys.signing))
        settings = NodeSettings(self._settings.data_dir / "pods", _reachable(self._settings.host), self.port, workloads)
        runner = self._settings.runner or ProcessRunner()
        return ProcessNode(self.plane.registry, issuer, rules.audiences, self._now, settings, runner)

    def _admin_kubeconfig(self) -> bytes:
        import base64

        ca = base64.b64encode(self.material.root_bundle).decode()
        return orjson.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "watchword",
                "clusters": [
                    {"name": "watchword", "cluster": {"server": self.server, "certificate-authority-data": ca}}
                ],
                "users": [{"name": "admin", "user": {"token": self.material.admin_token.reveal()}}],
                "contexts": [{"name": "watchword", "context": {"cluster": "watchword", "user": "admin"}}],
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        )

    async def _compact(self) -> None:
        is_full = len(self._compacted) == KEPT_COMPACTION_ROUNDS
        await self._store.compact(self._compacted[0] if is_full else 0)
        self._compacted.append(self._store.revision)

    async def _renew(self) -> None:
        self.material.renew()


def _open_store(settings: InstanceSettings) -> MemoryStore | SqliteStore:
    if settings.in_memory:
        return MemoryStore()
    path = settings.data_dir / "state.db"
    require_present(path, settings.data_dir / "pki")
    keys = read_encryption_keys(settings.encryption_key_file) if settings.encryption_key_file is not None else None
    return SqliteStore(path, synchronous=settings.synchronous, max_bytes=settings.max_bytes, encryption=keys)


def require_private_directory(folder: Path) -> None:
    """Make the data directory, or refuse one that belongs to another user or that others can write to or read."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found, link = folder.stat(), folder.lstat()
    except OSError as cause:
        raise StoreOpenError(f"cannot use {folder} as data directory: {cause.strerror}") from cause
    if found.st_uid != os.geteuid() or link.st_uid not in (os.geteuid(), 0):
        raise StoreOpenError(f"{folder} belongs to another user: choose a data directory of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreOpenError(f"{folder} is open to other users: run chmod 700 {folder} and start again")


def _hosts(settings: InstanceSettings) -> tuple[str, ...]:
    hosts = (*SERVICE_NAMES, "127.0.0.1", "::1", _reachable(settings.host), settings.advertise)
    return tuple(dict.fromkeys(host for host in hosts if host))


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104 - recognised, not bound
