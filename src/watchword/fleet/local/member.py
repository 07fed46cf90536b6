"""One control plane of a fleet on this machine: served on a loopback socket, spoken to from within."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path

from watchword.api.sensitive import Sensitive
from watchword.apiserver.instance import Instance, Settings
from watchword.apiserver.node.model import Runner
from watchword.fleet.errors import Refused
from watchword.fleet.local.blueprint import Place
from watchword.kube.client import Client
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.runtime.clock import Clock


@dataclass
class Member:
    """A control plane with its data; `client` is its administrator's, without a detour over the socket."""

    place: Place
    folder: Path
    clock: Clock
    runner: Runner  # of its pods
    in_memory: bool = False
    instance: Instance = field(init=False)
    client: Client = field(init=False)

    @property
    def name(self) -> str:
        """The name of the cluster, or `hub`."""
        return self.place.name

    @property
    def entries(self) -> tuple[ClusterEntry, UserEntry]:
        """How the administrator reaches it over the socket."""
        material = self.instance.material
        server = ClusterEntry(self.instance.server, ca_data=material.root_bundle)
        return server, UserEntry(token=material.admin_token)

    async def start(self) -> None:
        """Serve; `Refused` when the port is taken."""
        settings = Settings(
            self.folder,
            port=self.place.port,
            in_memory=self.in_memory,
            node=True,
            runner=self.runner,
        )
        instance = Instance(settings, self.clock.now)
        try:
            await instance.start()
        except OSError as cause:
            await instance.plane.stop()
            if cause.errno != errno.EADDRINUSE:
                raise
            raise Refused(
                f"port {self.place.port} of {self.name} is taken by another program: stop that one, or begin anew on "
                "other ports with `watchword reset`"
            ) from cause
        self.instance = instance
        token = instance.material.admin_token.reveal()
        self.client = Client.from_handler(instance.plane.handle, authorization=Sensitive(f"Bearer {token}"))

    async def stop(self) -> None:
        """End the service and close the data."""
        await self.instance.stop()
