"""Notes on the Secret of the hub's credential why the agent is not connected; the operator reports it."""

import asyncio

from msgspec import Struct, field

from watchword.api.meta import ObjectKey, annotations_of, uid_of
from watchword.api.names import Annotation
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.runtime.reconcile import Reader

PATIENCE_SECONDS = 10.0  # a server that restarts is not worth a note
RETRY_SECONDS = 30.0
LONGEST = 1000


class ConnectionReport(Struct):
    """What is wrong at this moment, by the annotation that says so; one that is not set yet stays as it is."""

    notes: dict[str, str | None] = field(default_factory=dict)  # None: nothing is wrong any more
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def connected(self, problem: str = "") -> None:
        """Record that the hub answered, or why it cannot be reached."""
        self._note(Annotation.HUB_UNREACHABLE, problem)

    def registered(self, problem: str = "") -> None:
        """Record that the hub has a ManagedCluster for this agent, or why not."""
        self._note(Annotation.NOT_REGISTERED, problem)

    def _note(self, name: str, problem: str) -> None:
        text = problem[:LONGEST] or None
        if name not in self.notes or self.notes[name] != text:
            self.notes[name] = text
            self.changed.set()

    async def report(self, cluster: Client, reader: Reader, secret: ObjectKey) -> None:
        """Keep the annotations of the Secret as they should be; makes the Secret when there is none."""
        while True:
            await self.changed.wait()
            if any(self.notes.values()):
                await asyncio.sleep(PATIENCE_SECONDS)
            self.changed.clear()
            try:
                await self._write(cluster, reader, secret)
            except KubeError:  # this cluster's own API server is down, or the cache is behind it
                self.changed.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _write(self, cluster: Client, reader: Reader, secret: ObjectKey) -> None:
        found = reader.get(SECRETS, secret)
        present = annotations_of(found or {})
        notes = {name: text for name, text in self.notes.items() if present.get(name) != text}
        if found is None and any(notes.values()):
            await cluster.create(SECRETS, SECRETS.manifest(secret, type="Opaque", metadata={"annotations": notes}))
        elif found is not None and notes:
            # Of this very Secret at any revision: no other program writes these annotations.
            patch = {"metadata": {"uid": uid_of(found), "annotations": notes}}
            await cluster.patch(SECRETS, secret, patch)
