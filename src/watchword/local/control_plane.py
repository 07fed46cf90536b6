"""One control plane of a fleet on this machine: served on a loopback socket, used in process."""

import errno
from dataclasses import dataclass, field
from pathlib import Path

from watchword.admin.errors import AdminError, InvalidInput, OperationRefused
from watchword.api.sensitive import Sensitive
from watchword.apiserver.access.chain import TokenReviewer
from watchword.apiserver.instance import KUBECONFIG_NAME, Instance, InstanceSettings
from watchword.apiserver.node.model import Runner
from watchword.apiserver.store.model import StoreOpenError
from watchword.kube.client import Client
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.local.data_directory import ControlPlaneAddress, reset_command
from watchword.local.workloads import WORKLOADS
from watchword.runtime.clock import Clock

FIRST_UNPRIVILEGED_PORT = 1024  # ports from here on need no privileges


@dataclass
class LocalControlPlane:
    """A control plane with its data; `client` is its administrator's, without a detour over the socket."""

    address: ControlPlaneAddress
    folder: Path
    clock: Clock
    runner: Runner  # of its pods
    in_memory: bool = False
    audit: bool = False  # write audit.log beside its data
    encryption_key_file: Path | None = None  # encrypt Secrets in its data file
    is_new: bool = False  # whether its addresses are still to be chosen
    reviewer: TokenReviewer | None = None  # authenticates tokens that it does not know
    instance: Instance = field(init=False)
    client: Client = field(init=False)

    @property
    def name(self) -> str:
        return self.address.name

    @property
    def kubeconfig(self) -> Path:
        return self.folder / KUBECONFIG_NAME

    @property
    def entries(self) -> tuple[ClusterEntry, UserEntry]:
        material = self.instance.material
        server = ClusterEntry(self.instance.server, ca_data=material.root_bundle)
        return server, UserEntry(token=material.admin_token)

    async def start(self) -> None:
        """Serve; `OperationRefused` when the port is taken, `InvalidInput` when nothing can be kept."""
        settings = InstanceSettings(
            self.folder,
            port=self.address.port,
            in_memory=self.in_memory,
            audit_log=self.folder / "audit.log" if self.audit else None,
            encryption_key_file=self.encryption_key_file,
            node=WORKLOADS,
            runner=self.runner,
            reviewer=self.reviewer,
        )
        try:
            instance = self.instance = Instance(settings, self.clock.now)
        except StoreOpenError as cause:
            raise InvalidInput(f"{self.name} cannot be started: {cause}") from cause
        except OSError as cause:
            raise self.explain_start_failure(cause) from cause
        try:
            await instance.start()
        except OSError as cause:
            await instance.plane.stop()
            raise self.explain_start_failure(cause) from cause
        token = instance.material.admin_token.reveal()
        self.client = Client.from_handler(instance.plane.handle, authorization=Sensitive(f"Bearer {token}"))

    def explain_start_failure(self, cause: OSError) -> AdminError:
        port = self.address.port
        if cause.errno == errno.EADDRINUSE:
            other = "give another --port" if self.in_memory or self.is_new else f"begin anew with `{self._reset}`"
            return OperationRefused(
                f"port {port} of {self.name} is taken by another program: stop that one, or {other}"
            )
        if cause.errno == errno.ENOSPC:
            return InvalidInput(f"{self.name} cannot be kept: the disk of {self.folder} is full: free some space")
        why = (cause.strerror or type(cause).__name__).lower()
        if cause.errno == errno.EACCES and port < FIRST_UNPRIVILEGED_PORT:
            return OperationRefused(
                f"port {port} of {self.name} is for the administrator of this machine: give a larger --port"
            )
        other = "set TMPDIR to a folder that can" if self.in_memory else "choose another --data-dir"
        return InvalidInput(f"{self.name} cannot be kept in {self.folder} ({why}): {other}")

    @property
    def _reset(self) -> str:
        return reset_command(self.folder.parent)

    async def stop(self) -> None:
        await self.instance.stop()
