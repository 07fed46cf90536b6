"""The controllers of discovery: cluster-info signatures, expiry of bootstrap tokens, Events about them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from watchword.api import bootstrap, yaml
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, is_deleting, uid_of
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.discovery.cluster_info import ClusterAuthorities, cluster_info_for_root_ca, read_authorities
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.token_secret import (
    TokenRecord,
    TokenUsage,
    is_token_secret,
    read_expiration,
    read_token_secret,
)
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.pki.jwt import sign_detached
from watchword.pki.keys import Pin
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, RetryAfter, Trigger


class SignatureDecision(Struct, frozen=True):
    """What to change on the ConfigMap, why nothing may be signed, and when a token's time comes."""

    data: Mapping[str, str | None] = field(default_factory=dict)  # None: remove the key
    annotation: str | None = None  # None: leave it; empty: remove it
    refusal: str = ""
    recheck_in: timedelta | None = None


def decide_signatures(
    config_map: Mapping[str, Any], secrets: Sequence[Object], *, own_pins: frozenset[Pin], now: datetime
) -> SignatureDecision:
    """Compare the signatures that are there with those that must be.

    Everything is decided at once, so that any number of changes is one write. A text that does not name
    this cluster's own authorities is not signed: its signatures are removed.
    """
    data: Mapping[str, str] = config_map.get("data") or {}
    text = data.get(bootstrap.KUBECONFIG_KEY)
    if text is None:
        return SignatureDecision()
    refusal = validate_cluster_info_authorities(text, own_pins)
    records = [] if refusal else [read_token_secret(secret) for secret in secrets]
    tokens = [each for each in records if isinstance(each, TokenRecord) and each.allows(TokenUsage.SIGNING, now)]
    wanted = {
        bootstrap.SIGNATURE_PREFIX + t.token.id: sign_detached(text.encode(), key_id=t.token.id, secret=t.token.secret)
        for t in sorted(tokens, key=lambda each: each.token.id)
    }
    present = {key: value for key, value in data.items() if key.startswith(bootstrap.SIGNATURE_PREFIX)}
    changes: dict[str, str | None] = {key: None for key in present if key not in wanted}
    changes.update((key, value) for key, value in wanted.items() if present.get(key) != value)
    said = annotations_of(config_map).get(bootstrap.ANNOTATION_SIGNING_REFUSED, "")
    return SignatureDecision(
        data=changes,
        annotation=refusal if said != refusal else None,
        refusal=refusal,
        recheck_in=min((t.expires - now for t in tokens if t.expires is not None), default=None),
    )


def validate_cluster_info_authorities(text: str, own_pins: frozenset[Pin]) -> str:
    """Return in one sentence why a cluster-info is not this cluster's own; empty when it is.

    Its form may be looser than what our own client accepts: other tools publish and read it as well.
    """
    if not own_pins:
        return "the cluster's own CA is not known: publish kube-root-ca.crt or name the CA to the controller"
    try:
        named = [pin for cluster in _clusters(text) for pin in _pins(cluster)]
    except ClusterInfoRefused as cause:
        return str(cause)
    foreign = [str(pin) for pin in named if pin not in own_pins]
    if foreign:
        return f"cluster-info names a CA that is not this cluster's own ({foreign[0]}): restore it"
    return ""


def _clusters(text: str) -> list[Mapping[str, Any]]:
    try:
        document = yaml.load(text)
    except yaml.YamlError as cause:
        raise ClusterInfoRefused("document", str(cause)) from cause
    entries = document.get("clusters") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(entries, list) or not entries:
        raise ClusterInfoRefused("clusters", "not a kubeconfig that names a cluster")
    if document.get("users"):
        raise ClusterInfoRefused("users", "credentials are not published: remove them")
    clusters = [entry.get("cluster") if isinstance(entry, Mapping) else None for entry in entries]
    return [cluster if isinstance(cluster, Mapping) else {} for cluster in clusters]


def _pins(cluster: Mapping[str, Any]) -> list[Pin]:
    if cluster.get("insecure-skip-tls-verify"):
        raise ClusterInfoRefused("insecure-skip-tls-verify", "clients must verify TLS: remove it")
    authorities = read_authorities(cluster.get("certificate-authority-data"))
    if not authorities:
        raise ClusterInfoRefused("certificate-authority-data", "missing: embed the cluster's CA")
    return [authority.pin for authority in authorities]


SETTLE = timedelta(milliseconds=200)  # with 50, 500 new tokens cost 42 writes instead of 14


class BootstrapSignerReconciler(Struct, frozen=True):
    """Reconciles the ConfigMap kube-public/cluster-info; triggered by it, by token Secrets and by the cluster's CA."""

    reader: Reader
    client: Client
    clock: Clock
    authorities: ClusterAuthorities
    events: EventRecorder
    settle: timedelta = SETTLE  # a pause in which many changes become one write

    async def reconcile(self, key: ObjectKey) -> Outcome:
        if key != bootstrap.CLUSTER_INFO:
            return Done()
        await asyncio.sleep(self.settle.total_seconds())
        config_map = self.reader.get(CONFIG_MAPS, key)
        if config_map is None:
            return Done()
        secrets = self.reader.list(SECRETS, namespace="kube-system")
        decision = decide_signatures(
            config_map, secrets, own_pins=self.authorities.pins(self.reader), now=self.clock.now()
        )
        patch = build_signature_patch(config_map, decision)
        if patch is not None:
            await self.client.patch(CONFIG_MAPS, key, patch)
        if decision.refusal and decision.annotation is not None:
            self.events.warning(config_map, "SigningRefused", decision.refusal)
        return Done() if decision.recheck_in is None else RetryAfter(decision.recheck_in)


def build_signature_patch(config_map: Object, decision: SignatureDecision) -> Object | None:
    """Return the merge patch for exactly this revision, None when nothing differs."""
    patch: dict[str, Any] = {"data": dict(decision.data)} if decision.data else {}
    metadata: Object = {}
    if decision.annotation is not None:
        metadata["annotations"] = {bootstrap.ANNOTATION_SIGNING_REFUSED: decision.annotation or None}
    if not patch and not metadata:
        return None
    # The signatures are for this text and no other: a newer one must refuse them.
    own = {name: config_map["metadata"][name] for name in ("uid", "resourceVersion")}
    return {**patch, "metadata": {**metadata, **own}}


def cluster_info_for_token(secret: Object) -> Iterable[ObjectKey]:
    return (bootstrap.CLUSTER_INFO,) if is_token_secret(secret) else ()


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
    (SECRETS, WatchScope(namespace=bootstrap.TOKEN_SECRET_NAMESPACE, fields=f"type={bootstrap.TOKEN_SECRET_TYPE}")),
    (CONFIG_MAPS, WatchScope(namespace=bootstrap.KUBE_PUBLIC)),
)
"""The least that a cache must follow for these controllers: no other Secret is ever read."""

CLEANER_WORKERS = 6  # tokens made together expire together; more connections would cost more than they bring


def discovery_controllers(
    reader: Reader, client: Client, clock: Clock, events: EventRecorder, *, authorities: ClusterAuthorities
) -> tuple[ControllerSpec, ...]:
    """Return the controllers bootstrapsigner, tokencleaner and token-events."""
    signer = BootstrapSignerReconciler(reader, client, clock, authorities, events)
    signed = (Trigger(SECRETS, cluster_info_for_token), Trigger(CONFIG_MAPS, cluster_info_for_root_ca))
    return (
        ControllerSpec("bootstrapsigner", CONFIG_MAPS, signer, triggers=signed, workers=1),
        ControllerSpec("tokencleaner", SECRETS, TokenCleanerReconciler(reader, client, clock), workers=CLEANER_WORKERS),
        ControllerSpec("token-events", SECRETS, TokenEventReconciler(reader, events, clock), workers=1),
    )
