"""The connection to the hub: its credential may be replaced, and the agent's Secret says what is wrong with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from random import Random

from msgspec import Struct, field

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey, annotations_of, uid_of
from watchword.api.names import Annotation
from watchword.api.resources import SECRETS
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.errors import ClientCertificateRefused, ConfigError, CredentialReplaced, KubeError, Unreachable
from watchword.kube.transport import Transport
from watchword.runtime.cache import Cache
from watchword.runtime.reconcile import Reader

PATIENCE_SECONDS = 10.0  # a server that restarts is not worth a note
RETRY = Backoff(first=60.0, limit=600.0)  # of a note: this cluster's own API server may be down for hours
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

    async def report(self, cluster: Client, own: Cache, secret: ObjectKey, random: Random) -> None:
        """Keep the annotations of the Secret as they should be; makes the Secret when there is none."""
        failures, made, made_at = 0, 0, 0.0
        own.add_handler(SECRETS, lambda _: self.changed.set())  # a note of which a stale cache knew nothing
        while True:
            await self.changed.wait()
            if any(self.notes.values()):
                await asyncio.sleep(PATIENCE_SECONDS)
            self.changed.clear()
            try:
                is_made, now = await self._write(cluster, own, secret), asyncio.get_running_loop().time()
                if is_made or now - made_at > RETRY.limit:
                    made, made_at = made + 1 if is_made else 0, now
                failures = max(0, made - 1) if is_made else 0  # made again: another program deletes it
            except KubeError:  # this cluster's own API server is down, or the cache is behind it
                self.changed.set()
                failures += 1
            if failures:
                await asyncio.sleep(RETRY.delay(failures, random))

    async def _write(self, cluster: Client, reader: Reader, secret: ObjectKey) -> bool:
        """Write what differs; return whether the Secret had to be made."""
        found = reader.get(SECRETS, secret)
        present = annotations_of(found or {})
        notes = {name: text for name, text in self.notes.items() if present.get(name) != text}
        if found is None and any(notes.values()):
            await cluster.create(SECRETS, SECRETS.manifest(secret, type="Opaque", metadata={"annotations": notes}))
            return True
        if found is not None and notes:
            # Of this very Secret at any revision: no other program writes these annotations.
            patch = {"metadata": {"uid": uid_of(found), "annotations": notes}}
            await cluster.patch(SECRETS, secret, patch)
        return False


BOOTSTRAP_REFUSED = "it does not accept the credential to join with, which may have expired: run watchword join again"


class HubConnection:
    """A transport whose credential can be replaced while it is used.

    Requests that are under way end as they began; streams are cut, so that a watch resumes at once with the new
    credential instead of living on with one that may be withdrawn.
    """

    def __init__(self) -> None:
        self.report = ConnectionReport()
        self._current: Transport | None = None
        self.uses_own_credential = False  # whether everything is sent in the name of this very cluster
        self._streams: dict[asyncio.Timeout, None] = {}  # in the order in which they were opened
        self.unreachable = asyncio.Event()  # set when the hub could not be reached
        self.refused = asyncio.Event()  # set while the hub answers 401, or a TLS alert, to the cluster's own credential
        self.honoured = asyncio.Event()  # set once the hub has answered anything else to it
        self._refused_since = 0.0  # by the loop's time

    async def use(self, transport: Transport, *, own: bool = False) -> None:
        previous, self._current, self.uses_own_credential = self._current, transport, own
        self.refused.clear()
        self.honoured.clear()
        for stream in self._streams:
            if not stream.expired():
                stream.reschedule(0)
        if previous is not None:
            try:
                await asyncio.sleep(0)  # the streams end first, so that they know why
            finally:  # also when the agent is stopped in this moment
                await previous.close()

    async def send(self, request: Request) -> Response:
        transport = self._transport()
        try:
            response = await transport.send(request)
        except (Unreachable, ConfigError) as error:
            self._note_failure(transport, error)
            raise
        self._note_answer(transport, response.status)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; reading its stream raises `CredentialReplaced` once another is used."""
        try:
            async with asyncio.timeout(None) as limit:
                transport, is_open = self._transport(), False
                self._streams[limit] = None  # from the start: one that is being opened is cut, too
                try:
                    async with transport.stream(request) as response:
                        self._note_answer(transport, response.status)
                        is_open = True
                        yield response
                except (Unreachable, ConfigError) as error:
                    if not is_open:
                        self._note_failure(transport, error)
                    raise
                finally:
                    self._streams.pop(limit, None)
        except TimeoutError as cause:
            if not limit.expired():
                raise
            raise CredentialReplaced("the credential was replaced", maybe_processed=False) from cause

    @property
    def refused_for(self) -> float:
        """For how many seconds the hub has refused the cluster's own credential without an exception."""
        return asyncio.get_running_loop().time() - self._refused_since if self.refused.is_set() else 0.0

    def _note_failure(self, transport: Transport, error: Unreachable | ConfigError) -> None:
        if transport is not self._current or isinstance(error, CredentialReplaced):
            return
        self.report.connected(str(error))
        if isinstance(error, Unreachable):
            self.unreachable.set()
        if isinstance(error, ConfigError | ClientCertificateRefused):  # or an exec plugin whose role is gone
            self._note_refusal(transport, HTTPStatus.UNAUTHORIZED)

    def _note_answer(self, transport: Transport, status: int) -> None:
        if transport is self._current:
            self.report.connected()
            if status == HTTPStatus.UNAUTHORIZED and not self.uses_own_credential:
                self.report.registered(BOOTSTRAP_REFUSED)
        self._note_refusal(transport, status)

    def _note_refusal(self, transport: Transport, status: int) -> None:
        if not self.uses_own_credential or transport is not self._current:
            return
        if status != HTTPStatus.UNAUTHORIZED:
            self.refused.clear()
            self.honoured.set()
        elif not self.refused.is_set():
            self._refused_since = asyncio.get_running_loop().time()
            self.refused.set()

    async def close(self) -> None:
        if self._current is not None:
            await self._current.close()

    def _transport(self) -> Transport:
        if self._current is None:
            raise Unreachable("there is no credential for the hub yet", maybe_processed=False)
        return self._current


class OwnCredentialTransport:
    """Lets writes pass only in the name of this very cluster.

    A write may begin as this cluster and be tried again after its credential has ended: no controller decides about a
    joining cluster's request for an add-on, so it would stay pending.
    """

    def __init__(self, connection: HubConnection) -> None:
        self._connection = connection

    async def send(self, request: Request) -> Response:
        if request.method != "GET" and not self._connection.uses_own_credential:
            raise Unreachable("the cluster's own credential is not in use now", maybe_processed=False)
        return await self._connection.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._connection.stream(request)

    async def close(self) -> None:
        """Do nothing: the session closes the connection."""
