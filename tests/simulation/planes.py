"""The control planes of a simulated fleet: one hub with all its rules, and one small plane for each cluster."""

from __future__ import annotations

import asyncio
from random import Random

import orjson
from msgspec import Struct
from tests.helpers.fleet import BOOTSTRAP_USER

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.crds import MANAGED_CRDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import NAMESPACES
from watchword.api.sensitive import Sensitive
from watchword.apiserver.access_config import AccessConfig, AccessControl, access_control_factory
from watchword.apiserver.authn.chain import StaticToken
from watchword.apiserver.authz.model import SUPERUSERS, AuthorizationDecision
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.tokens import TokenKeys
from watchword.kube.client import Client
from watchword.kube.transport import InProcessTransport, Transport
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
ADMIN = StaticToken(Sensitive("the-administrator-of-a-simulation"), User("admin", groups=(SUPERUSERS,)))
JOINING = StaticToken(Sensitive("the-bootstrap-of-a-simulation"), User(BOOTSTRAP_USER, groups=(MANAGED_CLUSTER_GROUP,)))


def replayable_client(transport: Transport) -> Client:
    """Return a client whose delays before it tries again are the same in every run."""
    return Client(transport, random=Random(0))


class SeededKeys(Struct, frozen=True):
    """Makes keys that are the same for the same seed, for renewals happen when a key says so."""

    random: Random

    def __call__(self) -> PrivateKey:
        """Return another key."""
        return PrivateKey.from_number(self.random.getrandbits(CURVE_ORDER_BITS) + 1)


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
    await asyncio.sleep(60)
    await hub.stop()
    cluster = ManagedPlane(images, clock, random, store=images.cluster)
    await cluster.start()
    await establish_crds(cluster.client(), MANAGED_CRDS, manager=prerequisites.FIELD_MANAGER)
    await asyncio.sleep(60)
    await cluster.stop()


class HubPlane:
    """The hub's API server: standard access rules, and authorities that can change."""

    server = "https://hub.simulation:6443"

    def __init__(self, images: PlaneImages, clock: Clock, random: Random, *, store: MemoryStore | None = None) -> None:
        self.store = store or images.hub.copy()
        self.authority = images.authority
        self.believed: tuple[Certificate, ...] = (images.authority.certificate,)
        self._clock = clock
        self._random = random
        self._handler = InterruptibleHandler()
        self._outages = 1  # it has to be started once
        self._rules = AccessConfig(
            token_keys=TokenKeys(images.token_key),
            authority=lambda: self.authority,
            root_bundle=lambda: self.ca_pem,
            client_authorities=lambda: self.believed,
            admin_tokens=(ADMIN, JOINING),
        )

    @property
    def ca_pem(self) -> bytes:
        """What clients have to trust."""
        return b"".join(certificate.pem for certificate in self.believed)

    async def start(self) -> None:
        """End one reason not to answer; answer when none is left."""
        self._outages -= 1
        if self._outages:
            return
        access = access_control_factory(self._rules, now=self._clock.now, entropy=self._random.randbytes)
        plane = ControlPlane(
            self.store, self._clock.now, access, entropy=self._random.randbytes, bookmark_every=NO_BOOKMARKS
        )
        await plane.start()
        self._handler.open(plane)

    async def stop(self) -> None:
        """Cut every connection and answer no more; what is stored stays."""
        self._outages += 1
        plane = self._handler.interrupt()
        if plane is not None:
            await plane.stop()

    def change_authority(self) -> Authority:
        """Sign with another key from now on, and believe the one before as well, which is returned."""
        previous = self.authority
        key = PrivateKey.from_number(self._random.getrandbits(CURVE_ORDER_BITS) + 1)
        self.authority = Authority.make("kubernetes", now=self._clock.now(), key=key)
        self.believed = (self.authority.certificate, *self.believed)
        return previous

    def distrust(self, authority: Certificate) -> None:
        """Believe an authority no longer."""
        self.believed = tuple(known for known in self.believed if known != authority)

    def transport(self) -> InProcessTransport:
        """Return a transport without an identity: `with_identity` gives it one."""
        return InProcessTransport(self._handler.handle)

    def administrator(self) -> Client:
        """Return a client that may do everything."""
        return replayable_client(
            self.transport().with_identity(authorization=Sensitive(f"Bearer {ADMIN.token.reveal()}"))
        )

    def joining(self) -> InProcessTransport:
        """Return a way in with the bootstrap credential."""
        return self.transport().with_identity(authorization=Sensitive(f"Bearer {JOINING.token.reveal()}"))


class ManagedPlane:
    """A managed cluster's API server; its own access rules are not what is examined here, so there are none."""

    def __init__(self, images: PlaneImages, clock: Clock, random: Random, *, store: MemoryStore | None = None) -> None:
        self.store = store or images.cluster.copy()
        self._plane = ControlPlane(
            self.store,
            clock.now,
            lambda _: AccessControl(_as_administrator, _AllowAll()),
            entropy=random.randbytes,
            bookmark_every=NO_BOOKMARKS,
        )

    async def start(self, *namespaces: str) -> None:
        """Begin to answer, with these namespaces."""
        await self._plane.start()
        for name in namespaces:
            await self._plane.registry.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))

    async def stop(self) -> None:
        """Answer no more."""
        await self._plane.stop()

    def transport(self) -> InProcessTransport:
        """Return the way in."""
        return InProcessTransport(self._plane.handle)

    def client(self) -> Client:
        """Return a client that no fault reaches."""
        return replayable_client(self.transport())


async def _as_administrator(_: HandlerRequest) -> User:
    return User("administrator", groups=(SUPERUSERS,))


class _AllowAll:
    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


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
