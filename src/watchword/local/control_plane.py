"""One control plane of a fleet on this machine: served on a loopback socket, used in process."""

import errno
from dataclasses import dataclass, field
from pathlib import Path

from watchword.admin.errors import AdminError, InvalidInput, OperationRefused
from watchword.api.sensitive import Sensitive
from watchword.apiserver.instance import KUBECONFIG_NAME, Instance, InstanceSettings
from watchword.apiserver.store.model import StoreOpenError
from watchword.kube.client import Client
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.local.data_directory import reset_command
from watchword.runtime.clock import Clock

FIRST_UNPRIVILEGED_PORT = 1024  # ports from here on need no privileges


@dataclass
class LocalControlPlane:
    """A control plane with its data; `client` is its administrator's, without a detour over the socket."""

    name: str
    settings: InstanceSettings
    clock: Clock
    is_new: bool = False  # whether its addresses are still to be chosen
    instance: Instance = field(init=False)
    client: Client = field(init=False)

    @property
    def kubeconfig(self) -> Path:
        return self.settings.data_dir / KUBECONFIG_NAME

    @property
    def entries(self) -> tuple[ClusterEntry, UserEntry]:
        material = self.instance.material
        server = ClusterEntry(self.instance.server, ca_data=material.root_bundle)
        return server, UserEntry(token=material.admin_token)

    async def start(self) -> None:
        """Serve; `OperationRefused` when the port is taken, `InvalidInput` when nothing can be kept."""
        try:
            instance = self.instance = Instance(self.settings, self.clock.now)
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
        port, folder, in_memory = self.settings.port, self.settings.data_dir, self.settings.in_memory
        if cause.errno == errno.EADDRINUSE:
            anew = f"begin anew with `{reset_command(folder.parent)}`"
            other = "give another --port" if in_memory or self.is_new else anew
            return OperationRefused(
                f"port {port} of {self.name} is taken by another program: stop that one, or {other}"
            )
        if cause.errno == errno.ENOSPC:
            return InvalidInput(f"{self.name} cannot be kept: the disk of {folder} is full: free some space")
        why = (cause.strerror or type(cause).__name__).lower()
        if cause.errno == errno.EACCES and port < FIRST_UNPRIVILEGED_PORT:
            return OperationRefused(
                f"port {port} of {self.name} is for the administrator of this machine: give a larger --port"
            )
        other = "set TMPDIR to a folder that can" if in_memory else "choose another --data-dir"
        return InvalidInput(f"{self.name} cannot be kept in {folder} ({why}): {other}")

    async def stop(self) -> None:
        await self.instance.stop()
