"""The controllers of pull secrets put together: what `watchword pull-secrets run` runs."""

import asyncio
import base64
import binascii
import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any

import structlog
from msgspec import Struct, field

from watchword.api.limits import PULL_SECRET_TOKENS_PER_SECOND
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_TOKEN_SECRET,
    CONFIGURATION,
    PULL_SECRETS_NAMESPACE,
    REGISTRY_SERVICES,
    SERVICE_ACCOUNT_TOKEN_TYPE,
    SIGNING_KEY_FIELD,
    SIGNING_KEY_SECRET,
)
from watchword.api.rate_limit import Rate, TokenBucket
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from watchword.credentials.evidence import (
    EvidenceMonitor,
    SignerTiming,
    SigningKeys,
    TokenEvidence,
    learn_published_keys,
)
from watchword.credentials.lifecycle import read_bound_token
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.tokens import request_token
from watchword.kube.watch import WatchOptions
from watchword.pki import keys as pem
from watchword.pullsecrets.image_pull_secrets import ImagePullSecretReconciler
from watchword.pullsecrets.legacy_secrets import LegacyPullSecretReconciler, LegacyTokenReconciler, is_legacy_token
from watchword.pullsecrets.pull_secret import OF_PULL_SECRETS, PullSecret, accounts_of, project_pull_secret
from watchword.pullsecrets.service_accounts import ACCOUNT_INDEX, ServiceAccountReconciler, secrets_of
from watchword.pullsecrets.settings import PullSecretMetrics, SettingsReader, validate_configuration
from watchword.runtime.backoff import Quarantine
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.leader_election import ElectionTiming
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, Trigger, TriggerSource


class ConfigurationReconciler(Struct, frozen=True):
    """Reconciles the one ConfigMap; other reconcilers read it by `SettingsReader` and ignore an erroneous one."""

    reader: Reader
    events: EventRecorder

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(CONFIG_MAPS, key)
        objection = "" if found is None else validate_configuration(found.get("data") or {})
        if found is not None and objection:
            self.events.warning(
                found, "PullSecretConfigurationRefused", f"the last valid configuration stays in use: {objection}"
            )
        return Done()


KEY_IDS = "keyIds"
PROBE_ACCOUNT = ObjectKey("default", "default")
PROBE_AUDIENCE = "watchword.dev/signing-key-probe"  # of no server, so the token is worth nothing
PROBE_SECONDS = 600


class SigningKeyReader(Struct, frozen=True):
    """Learns which keys sign; what it cannot learn leaves them as they were."""

    reader: Reader
    client: Client
    keys: SigningKeys

    async def learn(self, now: datetime) -> None:
        """Learn the keys once; a probe is issued only when nothing else shows a key that signs."""
        declared = self.reader.get(SECRETS, SIGNING_KEY_SECRET) or {}
        self.keys.declared = frozenset(declared.get(KEY_IDS) or ())
        await learn_published_keys(self.keys, self.client)(now)
        if not self.keys.declared and not self.keys.was_issued_since(now - self.keys.timing.poll):
            await self._probe(now)
        self.keys.update_signing(now=now)

    async def _probe(self, now: datetime) -> None:
        """Ask for a token that no server accepts, and look at the key that signed it."""
        try:
            issued = await request_token(
                self.client, PROBE_ACCOUNT, expiration_seconds=PROBE_SECONDS, audiences=(PROBE_AUDIENCE,)
            )
        except KubeError as error:
            log: Any = structlog.get_logger("watchword.pullsecrets")
            log.warning("no token was issued to learn the signing key from", error=str(error))
            return
        token = read_bound_token(issued.token.reveal())
        if token is not None and token.key_id:
            self.keys.observe_token(token.key_id, now=now)


def project_signing_key(secret: Object) -> Object:
    """Keep the ids of the public keys; the private key beside them never enters the cache."""
    text = (secret.get("data") or {}).get(SIGNING_KEY_FIELD, "")
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {}, KEY_IDS: sorted(read_key_ids(text))}


def read_key_ids(encoded: str) -> frozenset[str]:
    """Return the `kid` of every public key in a base64 text of PEM blocks.

    The label of a block is not trusted: OpenShift writes RSA PUBLIC KEY around a SubjectPublicKeyInfo.
    """
    try:
        text = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return frozenset()
    return frozenset(_key_id(der) for label, der in pem.blocks(text) if label.endswith("PUBLIC KEY"))


def _key_id(der: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


OF_LEGACY_TOKENS = WatchScope(fields=f"type={SERVICE_ACCOUNT_TOKEN_TYPE}")


class PullSecretParts(Struct, frozen=True):
    """What the reconcilers of pull secrets are made of."""

    cache: Cache
    client: Client
    events: EventRecorder
    clock: Clock
    metrics: PullSecretMetrics
    evidence: TokenEvidence
    random: Random
    config_map: ObjectKey = CONFIGURATION
    registry_services: tuple[ObjectKey, ...] = REGISTRY_SERVICES
    only_used: bool = False
    rate: TokenBucket = field(default_factory=lambda: TokenBucket(Rate(PULL_SECRET_TOKENS_PER_SECOND)))
    signers: TriggerSource = field(default_factory=TriggerSource)

    @property
    def settings(self) -> SettingsReader:
        return SettingsReader(self.cache, self.config_map, self.registry_services)

    @property
    def signing_key_monitor(self) -> EvidenceMonitor:
        """Follows the signing keys; to be run beside the controllers."""
        learn = SigningKeyReader(self.cache, self.client, self.evidence.keys).learn
        return EvidenceMonitor(
            self.evidence, self.clock, self.random, learn, lambda: managed_secret_keys(self.cache), self.signers
        )


def register_informers(parts: PullSecretParts) -> None:
    """Follow the least that the controllers need; no token and no private key enters the cache."""
    cache = parts.cache
    cache.informer(SERVICE_ACCOUNTS, project=project_account)
    cache.informer(NAMESPACES, project=lambda obj: {"metadata": {"labels": labels_of(obj)}})
    cache.informer(SECRETS, OF_PULL_SECRETS, project=project_pull_secret)
    cache.informer(SECRETS, OF_LEGACY_TOKENS, project=project_legacy_token)
    cache.informer(SECRETS, _only(SIGNING_KEY_SECRET), project=project_signing_key)
    cache.informer(CONFIG_MAPS, _only(parts.config_map))
    for service in parts.registry_services:
        cache.informer(SERVICES, _only(service))
    cache.index(SECRETS, ACCOUNT_INDEX, accounts_of)
    if parts.only_used:
        cache.informer(PODS, project=project_pod)
        cache.index(PODS, ACCOUNT_INDEX, lambda pod: (str(account_of_pod(pod)),))


def pull_secret_controllers(parts: PullSecretParts) -> tuple[ControllerSpec, ...]:
    cache, client, settings = parts.cache, parts.client, parts.settings
    accounts = ServiceAccountReconciler(cache, client, parts.clock, parts.events, settings, parts.only_used)
    pull_secrets = ImagePullSecretReconciler(
        cache, client, parts.clock, parts.events, settings, parts.evidence, parts.metrics, parts.rate
    )
    every_secret = _when_settings_change(lambda _: all_secret_keys(cache))
    return (
        ControllerSpec("configuration", CONFIG_MAPS, ConfigurationReconciler(cache, parts.events), workers=1),
        ControllerSpec("serviceaccounts", SERVICE_ACCOUNTS, accounts, triggers=_account_triggers(parts)),
        ControllerSpec(
            "imagepullsecrets",
            SECRETS,
            pull_secrets,
            triggers=(
                Trigger(SERVICE_ACCOUNTS, lambda obj: [s.key for s in secrets_of(cache, ObjectKey.of(obj))]),
                *_when_settings_change(lambda _: managed_secret_keys(cache)),
            ),
            trigger_source=parts.signers,
        ),
        ControllerSpec(
            "legacytokens",
            SECRETS,
            LegacyTokenReconciler(cache, client, settings),
            triggers=every_secret,
            concerns=is_legacy_token,
            acts_on_deletion=False,
        ),
        ControllerSpec(
            "legacypullsecrets",
            SECRETS,
            LegacyPullSecretReconciler(cache, client, settings, parts.events),
            triggers=(Trigger(SECRETS, lambda obj: legacy_secrets_for_token(cache, obj)), *every_secret),
            concerns=lambda obj: ANNOTATION_TOKEN_SECRET in annotations_of(obj),
            acts_on_deletion=False,
        ),
    )


def _account_triggers(parts: PullSecretParts) -> tuple[Trigger, ...]:
    cache = parts.cache
    return (
        Trigger(SECRETS, account_of_secret),
        Trigger(NAMESPACES, lambda obj: _keys_in(cache, obj["metadata"]["name"])),
        *((Trigger(PODS, lambda obj: (account_of_pod(obj),)),) if parts.only_used else ()),
        *_when_settings_change(lambda _: _keys_in(cache, "")),
    )


def _when_settings_change(keys: Callable[[Object], Iterable[ObjectKey]]) -> tuple[Trigger, ...]:
    return Trigger(CONFIG_MAPS, keys), Trigger(SERVICES, keys)


def account_of_secret(secret: Object) -> Iterable[ObjectKey]:
    found = PullSecret.read(secret)
    return () if found is None else (found.account_key,)


def account_of_pod(pod: Object) -> ObjectKey:
    name = (pod.get("spec") or {}).get("serviceAccountName") or "default"
    return ObjectKey(pod["metadata"]["namespace"], name)


def legacy_secrets_for_token(cache: Cache, token: Object) -> Iterable[ObjectKey]:
    name = annotations_of(token).get(ANNOTATION_ACCOUNT_NAME)
    if token.get("type") != SERVICE_ACCOUNT_TOKEN_TYPE or not name:
        return ()
    key = ObjectKey.of(token)
    found = secrets_of(cache, ObjectKey(key.namespace, name))
    return [secret.key for secret in found if secret.legacy_token == key.name]


def all_secret_keys(cache: Cache) -> list[ObjectKey]:
    return [ObjectKey.of(secret) for secret in cache.list(SECRETS)]


def managed_secret_keys(cache: Cache) -> list[ObjectKey]:
    found = (PullSecret.read(secret) for secret in cache.list(SECRETS))
    return [secret.key for secret in found if secret is not None and not secret.is_legacy]


def project_account(account: Object) -> Object:
    metadata = {name: value for name, value in account["metadata"].items() if name in _ACCOUNT_METADATA}
    rows = {name: account[name] for name in ("secrets", "imagePullSecrets") if account.get(name)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, **rows}


_ACCOUNT_METADATA = frozenset({"annotations", "labels", "deletionTimestamp"})


def project_legacy_token(secret: Object) -> Object:
    """Keep what tells whose token it is, and not the token."""
    kept = {name: value for name, value in secret["metadata"].items() if name in _TOKEN_METADATA}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": kept, "type": secret.get("type")}


_TOKEN_METADATA = frozenset({"annotations", "labels", "deletionTimestamp"})


def project_pod(pod: Object) -> Object:
    return {"metadata": {}, "spec": {"serviceAccountName": (pod.get("spec") or {}).get("serviceAccountName")}}


def _only(key: ObjectKey) -> WatchScope:
    return WatchScope(namespace=key.namespace, fields=f"metadata.name={key.name}")


def _keys_in(cache: Cache, namespace: str) -> list[ObjectKey]:
    return [ObjectKey.of(account) for account in cache.list(SERVICE_ACCOUNTS, namespace=namespace)]


PULL_SECRETS_LEASE = ObjectKey(PULL_SECRETS_NAMESPACE, "watchword-pull-secrets-lock")


@dataclasses.dataclass(frozen=True)
class PullSecretOptions:
    """How the controllers of pull secrets behave."""

    identity: str = "pull-secrets"
    config_map: ObjectKey = CONFIGURATION
    registry_services: tuple[ObjectKey, ...] = REGISTRY_SERVICES
    only_used: bool = False
    requests_per_second: float = PULL_SECRET_TOKENS_PER_SECOND
    signer_timing: SignerTiming = dataclasses.field(default_factory=SignerTiming)
    elect: bool = True
    health: tuple[str, int] | None = None
    timing: ElectionTiming = dataclasses.field(default_factory=ElectionTiming)
    follow: WatchOptions | None = None
    quarantine: Quarantine = dataclasses.field(default_factory=Quarantine)
    metrics: Metrics = dataclasses.field(default_factory=Metrics, compare=False)


async def run_pull_secrets(
    client: Client, options: PullSecretOptions, *, clock: Clock, random: Random, stop: asyncio.Event | None = None
) -> None:
    """Run the controllers until asked to stop; raises what the manager raises."""
    manager = Manager(
        ManagerOptions(
            name="watchword.dev/pull-secrets",
            identity=options.identity,
            lease=PULL_SECRETS_LEASE if options.elect else None,
            timing=options.timing,
            health=options.health,
            follow=options.follow,
            quarantine=options.quarantine,
        ),
        clock=clock,
        random=random,
        metrics=options.metrics,
    )
    connection = manager.connect(client)
    parts = PullSecretParts(
        connection.cache,
        connection.client,
        connection.events,
        clock,
        PullSecretMetrics(options.metrics.registry, now=clock.now),
        TokenEvidence(SigningKeys(options.signer_timing)),
        random,
        config_map=options.config_map,
        registry_services=options.registry_services,
        only_used=options.only_used,
        rate=TokenBucket(Rate(options.requests_per_second)),
    )
    register_informers(parts)
    manager.add(*pull_secret_controllers(parts))
    manager.add_job("signing keys", parts.signing_key_monitor.run)
    await manager.run(stop)
