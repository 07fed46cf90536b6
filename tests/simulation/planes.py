"""The control planes of a simulated fleet: one hub with all its rules, and one small plane for each cluster."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from uuid import UUID

import orjson
from msgspec import Struct
from tests.helpers.derived_keys import derived_key
from tests.helpers.fleet import BOOTSTRAP_USER
from tests.simulation.network import is_write

from watchword.accounts.hub.definition import install as install_accounts
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.crds import MANAGED_CRDS
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.names import (
    ADDON_NAMESPACE,
    AGENT_NAMESPACE,
    GRPC_SERVER_SERVICE_ACCOUNT,
    HUB_NAMESPACE,
    service_account_user,
)
from watchword.api.resources import NAMESPACES
from watchword.api.sensitive import Sensitive
from watchword.apiserver.access.chain import StaticToken
from watchword.apiserver.access.config import CONTROLLERS, AccessConfig, access_control_factory
from watchword.apiserver.access.rbac import SUPERUSERS
from watchword.apiserver.access.service_accounts import TokenKeys
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.serving.errors import out_of_memory
from watchword.apiserver.serving.model import ApiError, User
from watchword.apiserver.serving.negotiation import error_response
from watchword.apiserver.store.encryption import RowCipher
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import StoreChange
from watchword.apiserver.store.snapshot import Row, SnapshotSummary
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, Unauthorized
from watchword.kube.transport import InProcessTransport, Transport
from watchword.local.backup import Correction, decide_corrections
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate
from watchword.pki.keys import PrivateKey
from watchword.registration.hub import installation as prerequisites
from watchword.runtime.clock import Clock
from watchword.runtime.manifests import establish_crds
from watchword.testing.embedded_backend import InterruptibleHandler
from watchword.testing.virtual_time import EPOCH, VirtualClock, run_virtual

NO_BOOKMARKS = 10.0 * 365 * 86400  # seconds: watches are cut by faults, not found silent
CURVE_ORDER_BITS = 255
EVENTS_STAY = timedelta(hours=13)  # longer than from one look to the next
NAMESPACES_AT_START = (AGENT_NAMESPACE, ADDON_NAMESPACE)
ADMIN = StaticToken(Sensitive("the-administrator-of-a-simulation"), User("admin", groups=(SUPERUSERS,)))
JOINING = StaticToken(Sensitive("the-bootstrap-of-a-simulation"), User(BOOTSTRAP_USER, groups=(MANAGED_CLUSTER_GROUP,)))

GRPC_SERVER = StaticToken(
    Sensitive("the-grpc-server-of-a-simulation"),
    User(service_account_user(HUB_NAMESPACE, GRPC_SERVER_SERVICE_ACCOUNT), groups=("system:serviceaccounts",)),
)


def replayable_client(transport: Transport) -> Client:
    """Return a client whose delays before it tries again are the same in every run."""
    return Client(transport, random=Random(0))


class SeededKeys(Struct, frozen=True):
    """Makes keys that are the same for the same seed, for renewals happen when a key says so."""

    random: Random

    def __call__(self) -> PrivateKey:
        """Return another key."""
        return derived_key(self.random.getrandbits(CURVE_ORDER_BITS) + 1)


class PlaneImages(Struct, frozen=True):
    """Control planes as they are after installation, to be copied for each run."""

    hub: MemoryStore
    cluster: MemoryStore
    authority: Authority
    token_key: PrivateKey

    @classmethod
    def make(cls) -> PlaneImages:
        """Install a hub and a cluster once; takes a moment, so do it once for many runs."""
        keys = SeededKeys(Random("images"))
        authority = Authority.make("kubernetes", now=EPOCH, key=keys())
        blank = cls(MemoryStore(), MemoryStore(), authority, keys())
        run_virtual(_install(blank), seed=0)
        return blank


async def _install(images: PlaneImages) -> None:
    clock, random = VirtualClock(asyncio.get_running_loop()), Random("install")
    hub = HubPlane(images, clock, random, store=images.hub)
    await hub.start()
    await prerequisites.install(hub.administrator())
    await install_accounts(hub.administrator())
    await asyncio.sleep(60)
    await hub.stop()
    cluster = ManagedPlane(images, clock, random, store=images.cluster)
    await cluster.start()
    await establish_crds(cluster.administrator(), MANAGED_CRDS, manager=prerequisites.FIELD_MANAGER)
    for name in NAMESPACES_AT_START:
        await cluster.administrator().create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
    await asyncio.sleep(60)
    await cluster.stop()


class SimulatedPlane:
    """An API server with standard access rules; its authorities and signing keys can change, and it can be down."""

    name = "hub"
    controllers: tuple[str, ...] = tuple(CONTROLLERS)

    def __init__(self, images: PlaneImages, clock: Clock, random: Random, *, store: MemoryStore) -> None:
        self.store = store
        self.authority = images.authority
        self.believed: tuple[Certificate, ...] = (images.authority.certificate,)
        self.token_keys = TokenKeys(images.token_key)
        self.clock = clock
        self._random = random
        self._handler = InterruptibleHandler()
        self._outages = 1  # it has to be started once
        self.refused_writes = 0  # reasons to refuse every write
        self.starved = 0  # reasons to have no memory left for a request of two
        self.moves = 0
        self.down_at = self.up_at = 0.0  # of the loop's time: when it last went down, and came up

    @property
    def server(self) -> str:
        """The address, another one after each move."""
        return f"https://{self.name}{self.moves or ''}.simulation:6443"

    @property
    def is_up(self) -> bool:
        """Whether it answers."""
        return not self._outages

    @property
    def ca_pem(self) -> bytes:
        """What clients have to trust."""
        return b"".join(certificate.pem for certificate in self.believed)

    async def start(self) -> None:
        """End one reason not to answer; answer when none is left."""
        self._outages -= 1
        if self._outages:
            return
        rules = AccessConfig(
            token_keys=self.token_keys,
            authority=lambda: self.authority,
            root_bundle=lambda: self.ca_pem,
            client_authorities=lambda: self.believed,
            admin_tokens=(ADMIN, JOINING, GRPC_SERVER),
            controllers=self.controllers,
            event_ttl=EVENTS_STAY,
        )
        access = access_control_factory(rules, now=self.clock.now, entropy=self._random.randbytes)
        plane = ControlPlane(
            self.store, self.clock.now, access, entropy=self._random.randbytes, bookmark_every=NO_BOOKMARKS
        )
        await plane.start()
        self._handler.open(plane)
        self.up_at = asyncio.get_running_loop().time()

    async def stop(self) -> None:
        """Cut every connection and answer no more; what is stored stays."""
        self._outages += 1
        if self._outages == 1:
            self.down_at = asyncio.get_running_loop().time()
        plane = self._handler.interrupt()
        if plane is not None:
            await plane.stop()

    def change_authority(self) -> Authority:
        """Sign with another key from now on, and believe the one before as well, which is returned."""
        previous = self.authority
        self.authority = Authority.make("kubernetes", now=self.clock.now(), key=self._new_key())
        self.believed = (self.authority.certificate, *self.believed)
        return previous

    def distrust(self, authority: Certificate) -> None:
        """Believe an authority no longer."""
        self.believed = tuple(known for known in self.believed if known != authority)

    async def restore(self, earlier: MemoryStore) -> None:
        """Continue with what was stored earlier, as `watchword restore` does: what was denied or revoked stays so."""
        await self.stop()
        corrections = decide_corrections(_summary(earlier), _summary(self.store), RowCipher(None))
        self.store.restore(earlier)
        for each in corrections:
            await self._correct(each)
        await self.start()

    async def _correct(self, correction: Correction) -> None:
        saved, uid = correction.saved, UUID(int=self._random.getrandbits(128), version=4)  # the same in every run
        if correction.obj is not None and uid_of(correction.obj) != uid_of(orjson.loads(saved.body)):
            correction.obj["metadata"]["uid"] = str(uid)
        await self.store.write(
            StoreChange(
                saved.bucket,
                saved.path,
                saved.revision,
                lambda revision: correction.row(revision).body,
                deleted=correction.obj is None,
            )
        )

    async def change_token_key(self, *, keep_old: bool) -> None:
        """Sign tokens with another key from now on; those of the key before are accepted still, or refused at once."""
        self.token_keys = TokenKeys(self._new_key(), self.token_keys.public if keep_old else ())
        await self.stop()
        await self.start()

    def _new_key(self) -> PrivateKey:
        return derived_key(self._random.getrandbits(CURVE_ORDER_BITS) + 1)

    def transport(self) -> InProcessTransport:
        """Return a transport without an identity: `with_identity` gives it one."""
        return InProcessTransport(self._handle)

    async def _handle(self, request: Request) -> Response:
        if self.refused_writes and is_write(request):
            return error_response(None, ApiError(507, "InsufficientStorage", "no space left on device"))
        if self.starved and self._random.random() < 0.5:
            return error_response(None, out_of_memory())
        return await self._handler.handle(request)

    def as_token(self, token: str) -> InProcessTransport:
        """Return a transport that shows a token."""
        return self.transport().with_identity(authorization=Sensitive(f"Bearer {token}"))

    def administrator(self) -> Client:
        """Return a client that may do everything, and that no fault reaches."""
        return replayable_client(self.as_token(ADMIN.token.reveal()))

    async def accepts(self, token: str) -> bool | None:
        """Whether the server takes a token for that of an identity now; None when it is down."""
        try:
            await who_am_i(replayable_client(self.as_token(token)))
        except Unauthorized:
            return False
        except KubeError:
            return None
        return True


def _summary(store: MemoryStore) -> SnapshotSummary:
    rows = (Row(r.revision, r.bucket, r.path, False, r.body) for name in store.buckets() for r in store.records(name))
    return SnapshotSummary(0, store.revision, {f"{row.bucket}/{row.path}": row for row in rows})


class HubPlane(SimulatedPlane):
    """The hub's API server."""

    def __init__(self, images: PlaneImages, clock: Clock, random: Random, *, store: MemoryStore | None = None) -> None:
        super().__init__(images, clock, random, store=store or images.hub.copy())

    def joining(self) -> InProcessTransport:
        """Return a way in with the bootstrap credential."""
        return self.as_token(JOINING.token.reveal())


class ManagedPlane(SimulatedPlane):
    """A managed cluster's API server, without the controllers that nothing there needs."""

    name = "cluster"
    controllers = ("cluster-role-aggregation", "event-expiry", "garbage-collection", "namespace-lifecycle")

    def __init__(self, images: PlaneImages, clock: Clock, random: Random, *, store: MemoryStore | None = None) -> None:
        super().__init__(images, clock, random, store=store or images.cluster.copy())
        self.token_keys = TokenKeys(self._new_key())


class StoreReader:
    """Reads what a store holds without asking a server, decoding each version once."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._decoded: dict[tuple[str, str], tuple[int, Object]] = {}

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        """Return one object."""
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        record = self._store.get(resource.group_resource, path)
        return None if record is None else self._decode(record.bucket, record.path, record.revision, record.body)

    def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Return the objects of a kind, in key order."""
        records = self._store.records(resource.group_resource, namespace)
        return [self._decode(r.bucket, r.path, r.revision, r.body) for r in records]

    def _decode(self, bucket: str, path: str, revision: int, body: bytes) -> Object:
        known = self._decoded.get((bucket, path))
        if known is None or known[0] != revision:
            known = self._decoded[bucket, path] = (revision, orjson.loads(body))
        return known[1]
