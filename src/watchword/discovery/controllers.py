"""The controllers of discovery: cluster-info signatures, expiry of bootstrap tokens, Events about them."""

from contextlib import suppress
from datetime import datetime

from msgspec import Struct, field

from watchword.api.bootstrap import KUBE_PUBLIC, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.discovery.bootstrap_signer import BootstrapSignerReconciler, WarningRecorder, cluster_info_for_token
from watchword.discovery.cluster_info import ClusterAuthorities, cluster_info_for_root_ca
from watchword.discovery.token_secret import TokenRecord, is_token_secret, read_expiration, read_token_secret
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, RetryAfter, Trigger


class TokenCleanerReconciler(Struct, frozen=True):
    """Reconciles Secrets of the bootstrap token type; sleeps until each one's expiration."""

    reader: Reader
    client: Client
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        secret = self.reader.get(SECRETS, key)
        if secret is None or not is_token_secret(secret) or is_deleting(secret):
            return Done()
        expires, now = read_expiration(secret), self.clock.now()
        if expires is None:
            return Done()
        if expires > now:
            return RetryAfter(expires - now)
        with suppress(NotFound, Conflict):  # gone already, or another token of that id has taken its place
            await self.client.delete(SECRETS, key, uid=uid_of(secret))
        return Done()


class SeenToken(Struct, frozen=True):
    """What was last seen of a token, without its secret."""

    secret: Object  # metadata alone
    id: str
    expires: datetime | None


class TokenEventReconciler(Struct, frozen=True):
    """Reconciles Secrets of the bootstrap token type. After a restart, tokens of the last hour are told again."""

    reader: Reader
    events: EventRecorder
    clock: Clock
    seen: dict[ObjectKey, SeenToken] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        before, now = self.seen.pop(key, None), self._observe(key)
        if now is not None:
            self.seen[key] = now
        if before is not None and (now is None or uid_of(now.secret) != uid_of(before.secret)):
            self._tell_end(before)
            before = None
        if before is None and now is not None and self._is_news(now):
            until = "never expires" if now.expires is None else f"expires at {rfc3339(now.expires)}"
            self.events.normal(now.secret, "JoinTokenCreated", f"join token {now.id} was created, and {until}")
        return Done()

    def _observe(self, key: ObjectKey) -> SeenToken | None:
        secret = self.reader.get(SECRETS, key)
        record = None if secret is None else read_token_secret(secret)
        if secret is None or not isinstance(record, TokenRecord):
            return None
        described: Object = {name: secret[name] for name in ("apiVersion", "kind", "metadata") if name in secret}
        return SeenToken(described, record.token.id, record.expires)

    def _tell_end(self, token: SeenToken) -> None:
        if token.expires is not None and token.expires <= self.clock.now():
            self.events.normal(token.secret, "JoinTokenExpired", f"join token {token.id} has expired and was deleted")
        else:
            self.events.normal(token.secret, "JoinTokenDeleted", f"join token {token.id} was deleted")

    def _is_news(self, token: SeenToken) -> bool:
        created = parse_rfc3339(str(token.secret["metadata"].get("creationTimestamp") or ""))
        return is_news(created, now=self.clock.now())


SCOPES: tuple[tuple[Resource, WatchScope], ...] = (
    (SECRETS, WatchScope(namespace=TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}")),
    (CONFIG_MAPS, WatchScope(namespace=KUBE_PUBLIC)),
)
"""The least that a cache must follow for these controllers: no other Secret is ever read."""

CLEANER_WORKERS = 6  # tokens made together expire together; more connections would cost more than they bring


def discovery_controllers(
    reader: Reader,
    client: Client,
    clock: Clock,
    *,
    authorities: ClusterAuthorities,
    warning_recorder: WarningRecorder | None = None,
    events: EventRecorder | None = None,
) -> tuple[ControllerSpec, ...]:
    """Return bootstrapsigner and tokencleaner, and with `events` what tells about tokens, ready to run."""
    signer = BootstrapSignerReconciler(reader, client, clock, authorities, warning_recorder)
    telling = () if events is None else (TokenEventReconciler(reader, events, clock),)
    return (
        ControllerSpec(
            "bootstrapsigner",
            CONFIG_MAPS,
            signer,
            triggers=(Trigger(SECRETS, cluster_info_for_token), Trigger(CONFIG_MAPS, cluster_info_for_root_ca)),
            workers=1,
        ),
        ControllerSpec("tokencleaner", SECRETS, TokenCleanerReconciler(reader, client, clock), workers=CLEANER_WORKERS),
        *(ControllerSpec("token-events", SECRETS, each, workers=1) for each in telling),
    )
