"""What servers say of credentials: which keys sign tokens, and whether a token is refused."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeAlias

import structlog
from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import service_account_user
from watchword.api.sensitive import Sensitive
from watchword.credentials.lifecycle import BoundToken, Evidence, GrowingPause, draw, read_bound_token
from watchword.kube.client import Client
from watchword.kube.connect import make_client
from watchword.kube.credentials import Credential, FixedCredential, bearer
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Forbidden, KubeError, MalformedResponse, NotFound, Unauthorized
from watchword.kube.tokens import IssuedToken, account_replaced, read_published_key_ids, request_token
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import TriggerSource


class SignerTiming(Struct, frozen=True):
    """How quickly a change of the signing key is accepted, and over how long tokens are replaced."""

    settle: timedelta = timedelta(minutes=5)  # a key that signed a token this recently still signs
    spread: timedelta = timedelta(minutes=5)  # from the moment at which a key signs no more
    poll: timedelta = timedelta(minutes=1)


class SigningKeys(Struct):
    """What is known of the keys that sign service account tokens; knowing nothing never makes a token bad.

    Servers of one cluster get another key one by one. While they disagree, a key that signed lately is good, whichever
    server publishes it, so that a token that was just issued is not replaced by another one of the same key.
    """

    timing: SignerTiming = field(default_factory=SignerTiming)
    declared: frozenset[str] = frozenset()  # those that are to sign, where the cluster says so
    published: frozenset[str] = frozenset()  # by the server's key set; empty when it is not readable
    _published_at: datetime = datetime.min.replace(tzinfo=UTC)  # since when it publishes these
    _issued: dict[str, datetime] = field(default_factory=dict)
    _signing: frozenset[str] = frozenset()
    _changed_at: datetime | None = None
    _is_news: bool = False

    def observe_token(self, key_id: str, *, now: datetime) -> None:
        """Record that a server has just signed a token with this key, which is valid from now on."""
        self._issued[key_id] = now

    def observe_published(self, key_ids: frozenset[str], *, now: datetime) -> None:
        """Record the keys that the server publishes: it accepts only their tokens."""
        if key_ids and key_ids != self.published:
            self.published, self._published_at, self._is_news = key_ids, now, True

    def update_signing(self, *, now: datetime) -> None:
        """Drop keys that have not signed lately, and note when the keys that sign are others than before.

        Tokens of a dropped key are replaced from this instant on. For pillars that see tokens issued regularly.
        """
        self._issued = {key: at for key, at in self._issued.items() if now - at < self.timing.settle}
        signing = frozenset(self._issued) | self.declared
        if signing and signing != self._signing:
            self._signing, self._changed_at, self._is_news = signing, now, True

    def take_news(self) -> bool:
        news, self._is_news = self._is_news, False
        return news

    def was_issued_since(self, instant: datetime) -> bool:
        """Whether a token was issued since then, so nothing has to be asked to know a key that signs."""
        return any(at >= instant for at in self._issued.values())

    def replacement_time(self, token: BoundToken, *, seed: str) -> datetime | None:
        """Return from when on a token is replaced because of its key, None while its key is good.

        A token whose key the server no longer publishes fails already: it is replaced at once, unless the key signed
        lately. A key that signed since the server published others is good: the key set is that of something else.
        """
        key_id, signed_at = token.key_id, self._issued.get(token.key_id)
        if not key_id:
            return None
        is_withdrawn = bool(self.published) and key_id not in self.published
        if is_withdrawn and (signed_at is None or signed_at < self._published_at):
            return max(token.issued_at, signed_at or token.issued_at) + self.timing.settle
        if not self._signing or key_id in self._signing or key_id in self._issued or self._changed_at is None:
            return None
        return self._changed_at + self.timing.spread * draw(seed)


class TokenRequest(Struct, frozen=True, kw_only=True):
    """A token to request: of the ServiceAccount with that UID."""

    account: ObjectKey
    uid: str
    lifetime: timedelta
    audiences: tuple[str, ...] = ()
    bound_to: Object | None = None  # the object whose deletion invalidates the token


class TokenEvidence(Struct):
    """What is known of the tokens that one server issues, and which certificates it refuses."""

    keys: SigningKeys = field(default_factory=SigningKeys)
    _issued_lives: dict[timedelta, timedelta] = field(default_factory=dict)  # requested → issued
    _obtained: dict[tuple[str, str], tuple[datetime, datetime]] = field(default_factory=dict)  # holder → issued, when
    _refused: frozenset[BoundToken] = frozenset()
    refused_certificates: Mapping[str, datetime] = field(default_factory=dict)  # the certificate's id → its end
    _is_news: bool = False

    def observe_issued(self, token: BoundToken, *, requested: timedelta, now: datetime) -> None:
        self.keys.observe_token(token.key_id, now=now)
        self._issued_lives[requested] = token.lifetime
        self._obtained[token.holder] = token.issued_at, now

    def observe_refused(self, token: BoundToken, *, now: datetime) -> None:
        self._is_news |= token not in self._refused
        self._refused = frozenset({token, *(known for known in self._refused if known.expires_at > now)})

    def observe_refused_certificate(self, identifier: str, expires_at: datetime, *, now: datetime) -> None:
        self._is_news |= identifier not in self.refused_certificates
        kept = {known: until for known, until in self.refused_certificates.items() if until > now}
        self.refused_certificates = {**kept, identifier: expires_at}

    def take_news(self) -> bool:
        news, self._is_news = self._is_news or self.keys.take_news(), False
        return news

    def about(self, token: BoundToken, *, seed: str, requested: timedelta) -> Evidence:
        issued_at, obtained_at = self._obtained.get(token.holder, (None, None))
        return Evidence(
            obtained_at=obtained_at if issued_at == token.issued_at else None,
            refused=token in self._refused,
            withdrawn_at=self.keys.replacement_time(token, seed=seed),
            issued_life=self._issued_lives.get(requested, timedelta(0)),
        )

    async def obtain(self, client: Client, request: TokenRequest, *, now: datetime) -> IssuedToken:
        """Request a token and note what was issued; `Conflict` when it is of another ServiceAccount of that name."""
        issued = await request_token(
            client,
            request.account,
            expiration_seconds=int(request.lifetime.total_seconds()),
            audiences=request.audiences,
            uid=request.uid,
            bound_to=request.bound_to,
        )
        token = read_bound_token(issued.token.reveal())
        if token is None:
            raise MalformedResponse("the server issued a token that cannot be read, or that does not expire")
        if token.account_uid != request.uid:
            raise account_replaced(request.account, wanted=request.uid, found=token.account_uid)
        if token.subject != service_account_user(request.account.namespace, request.account.name):
            raise MalformedResponse(f"the server issued a token for {token.subject}, not for {request.account}")
        self.observe_issued(token, requested=request.lifetime, now=now)
        return issued


def refusal_pause() -> GrowingPause:
    """Return what lets refusals count ever less often while a server accepts nothing: others are refused as well."""
    return GrowingPause(first=timedelta(minutes=5), longest=timedelta(hours=6))


Learn: TypeAlias = Callable[[datetime], Awaitable[None]]
"""Learns what a pillar can learn at an instant; what it cannot learn leaves the evidence as it was."""

CredentialClientFactory: TypeAlias = Callable[[Credential], Client]
"""Returns a client that shows a credential; `ConfigError` when it cannot be used."""

TokenClientFactory: TypeAlias = Callable[[Sensitive[str]], Client]
"""Returns a client that shows a token; `ConfigError` when no server would accept such a text."""


class EvidenceMonitor(Struct, frozen=True):
    """Asks the server regularly, and triggers the credentials that are concerned when it says something new."""

    evidence: TokenEvidence
    clock: Clock
    random: Random
    learn: Learn
    concerned: Callable[[], Iterable[ObjectKey]]
    trigger: TriggerSource

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self.evidence.keys.timing.poll.total_seconds() * self.random.uniform(0.8, 1.2))

    async def look(self) -> None:
        await self.learn(self.clock.now())
        if self.evidence.take_news():
            self.trigger.enqueue_all(self.concerned())


def connect_with(endpoint: Endpoint) -> CredentialClientFactory:
    return lambda credential: make_client(endpoint, FixedCredential(credential))


def connect_with_token(endpoint: Endpoint) -> TokenClientFactory:
    return show_tokens(connect_with(endpoint))


def show_tokens(connect: CredentialClientFactory) -> TokenClientFactory:
    return lambda token: connect(Credential(bearer(token.reveal().encode())))


def learn_published_keys(keys: SigningKeys, client: Client) -> Learn:
    """Return what reads the key set of a server; every ServiceAccount may read it, and not every server serves it."""

    async def learn(now: datetime) -> None:
        try:
            keys.observe_published(await read_published_key_ids(client), now=now)
        except KubeError as error:
            log_unread(error)

    return learn


def learn_by_use(
    evidence: TokenEvidence, tokens: Callable[[], Iterable[Sensitive[str]]], connect: TokenClientFactory
) -> Learn:
    """Return what shows tokens to their server until one is accepted, and reads the key set with that one.

    No right is needed but those that every ServiceAccount has. The key set tells which of the other tokens are bad.
    """
    pause = refusal_pause()

    async def learn(now: datetime) -> None:
        refused = accepted = False
        for text in tokens():
            token = read_bound_token(text.reveal())
            if token is None or now >= token.expires_at:
                continue  # replaced whatever the server says
            try:
                async with connect(text) as client:
                    key_ids = await read_published_key_ids(client)
            except Unauthorized:
                refused = True
                if not pause.left(now):
                    evidence.observe_refused(token, now=now)
            except (Forbidden, NotFound):
                accepted = True  # and the server does not show its keys
            except KubeError as error:
                log_unread(error)
                break
            else:
                evidence.keys.observe_published(key_ids, now=now)
                accepted = True
                break
        pause.record(now, failed=refused, succeeded=accepted)

    return learn


def log_unread(error: Exception) -> None:
    log: Any = structlog.get_logger("watchword.credentials")
    log.info("the server did not say whether it honours a credential", error=str(error))
