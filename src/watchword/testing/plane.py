"""A control plane for one test: clients, namespaces and kubeconfigs that are removed with the test."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Protocol

from watchword.api import resources
from watchword.api.meta import ObjectKey, Resource
from watchword.apiserver.store.memory import MemoryStore
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.testing.credentials import ADMIN, ADMIN_GROUPS
from watchword.testing.errors import UnsupportedByPlane

Stop = Callable[[], None]


class Backend(Protocol):
    """The interface of every control plane that tests can run on; adding one adds a fixture parameter."""

    name: str
    clock: Clock
    run_id: str  # distinguishes the names of tests that share this control plane; empty when it is not shared

    @property
    def server(self) -> str:
        """The URL; `UnsupportedByPlane` without a socket."""
        ...

    @property
    def ca_pem(self) -> bytes: ...

    def connect(self, user: str, groups: Sequence[str]) -> Client: ...

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        """Write a kubeconfig of this user, 0600; `UnsupportedByPlane` without a socket."""
        ...

    async def restart(self, *, kill: bool) -> None:
        """End the server, as a crash would or gracefully, and start it with the same data."""
        ...

    async def rotate_signing_key(self, *, keep_old: bool) -> None:
        """Restart with a new key for service account tokens; those of the earlier ones stay valid or become invalid."""
        ...

    async def start_controllers(self, names: Sequence[str]) -> Stop:
        """Run these controllers of kube-controller-manager until the returned function is called."""
        ...


class Plane:
    """One test's view of a control plane; `close` removes everything that was created for the test."""

    def __init__(self, backend: Backend, *, private: bool) -> None:
        self._backend = backend
        self._private = private
        self._numbers = count(1)
        self._clients: dict[tuple[str, tuple[str, ...]], Client] = {}
        self._fresh: list[Client] = []
        self.namespaces: list[str] = []
        self._stops: list[Stop] = []

    @property
    def name(self) -> str:
        """`embedded` or `kube-apiserver`."""
        return self._backend.name

    @property
    def is_shared(self) -> bool:
        return bool(self._backend.run_id)

    @property
    def server(self) -> str:
        return self._backend.server

    @property
    def ca_pem(self) -> bytes:
        return self._backend.ca_pem

    @property
    def store(self) -> MemoryStore | None:
        """What the control plane stores in this process; None where it is another process."""
        return getattr(self._backend, "store", None)

    @property
    def clock(self) -> Clock:
        """The clock of the control plane: virtual with the test's loop, or the system's."""
        return self._backend.clock

    @property
    def kubeconfig(self) -> Path:
        return self._backend.kubeconfig_for(ADMIN, ADMIN_GROUPS)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        return self._backend.kubeconfig_for(user, groups)

    def client(self, user: str | None = None, groups: Sequence[str] = ()) -> Client:
        """Return the client of a user (None: the administrator), the same one each time."""
        who = (ADMIN, ADMIN_GROUPS) if user is None else (user, tuple(groups))
        if who not in self._clients:
            self._clients[who] = self._backend.connect(*who)
        return self._clients[who]

    def fresh_client(self, user: str | None = None, groups: Sequence[str] = ()) -> Client:
        """Return a new client of a user (None: the administrator), closed with the test at the latest."""
        who = (ADMIN, ADMIN_GROUPS) if user is None else (user, tuple(groups))
        return self.adopt(self._backend.connect(*who))

    def adopt(self, client: Client) -> Client:
        self._fresh.append(client)
        return client

    def unique(self, prefix: str) -> str:
        """Return a name that no other test uses, for cluster-scoped objects."""
        own = f"{self._backend.run_id}-{secrets.token_hex(4)}" if self.is_shared else ""
        return "-".join(part for part in (prefix, own, str(next(self._numbers))) if part)

    async def namespace(self, prefix: str = "test") -> str:
        name = self.unique(prefix)
        await self.client().create(resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(name)))
        self.namespaces.append(name)
        return name

    async def restart(self, *, kill: bool = True) -> None:
        """End the server and start it again with the same data; only on a `private_plane`."""
        self._require_private()
        await self._backend.restart(kill=kill)

    async def rotate_signing_key(self, *, keep_old: bool = True) -> None:
        """Sign service account tokens with a new key, and accept those of the old one; only on a `private_plane`."""
        self._require_private()
        await self._backend.rotate_signing_key(keep_old=keep_old)

    def _require_private(self) -> None:
        if not self._private:
            raise UnsupportedByPlane(
                "other tests use this control plane: ask for the fixture private_plane to restart it"
            )

    async def controllers(self, *names: str) -> None:
        """Run these controllers of kube-controller-manager until the test ends (the embedded plane has its own)."""
        self._stops.append(await self._backend.start_controllers(names))

    async def close(self) -> None:
        for stop in self._stops:
            await asyncio.to_thread(stop)
        if self.is_shared:
            await asyncio.gather(*(empty_namespace(self.client(), name) for name in self.namespaces))
        for client in (*self._clients.values(), *self._fresh):
            await client.close()


async def empty_namespace(client: Client, name: str) -> None:
    """Delete the objects in a test's namespace, and the namespace; no namespace controller is needed."""
    await asyncio.gather(*(client.request("DELETE", kind.path(namespace=name)) for kind in _namespaced_kinds()))
    path = resources.NAMESPACES.path(ObjectKey.cluster(name))
    await client.request("DELETE", path)
    await client.request(
        "PUT", f"{path}/finalize", body=resources.NAMESPACES.manifest(ObjectKey.cluster(name), spec={"finalizers": []})
    )


def _namespaced_kinds() -> list[Resource]:
    known = (value for value in vars(resources).values() if isinstance(value, Resource))
    return [kind for kind in known if kind.namespaced]
