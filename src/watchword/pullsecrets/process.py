"""The controllers of pull secrets as one process: what `watchword pull-secrets` runs."""

import asyncio
import base64
import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any

import structlog
from msgspec import Struct

from watchword.api.limits import PULL_SECRET_TOKENS_PER_SECOND
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import PULL_SECRETS_NAMESPACE
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_TOKEN_SECRET,
    CONFIGURATION,
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
from watchword.pki import keys as pem
from watchword.pullsecrets.image_pull_secrets import ImagePullSecretReconciler
from watchword.pullsecrets.legacy_secrets import LegacyPullSecretReconciler, LegacyTokenReconciler, is_legacy_token
from watchword.pullsecrets.pull_secret import OF_PULL_SECRETS, PullSecret, accounts_of, project_pull_secret
from watchword.pullsecrets.service_accounts import ACCOUNT_INDEX, ServiceAccountReconciler, secrets_of
from watchword.pullsecrets.settings import PullSecretMetrics, SettingsReader, validate_configuration
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import ProcessOptions
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
    except ValueError:  # no base64
        return frozenset()
    found = [hashlib.sha256(der).digest() for label, der in pem.blocks(text) if label.endswith("PUBLIC KEY")]
    return frozenset(base64.urlsafe_b64encode(digest).rstrip(b"=").decode() for digest in found)


OF_LEGACY_TOKENS = WatchScope(fields=f"type={SERVICE_ACCOUNT_TOKEN_TYPE}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PullSecretOptions(ProcessOptions):
    """How the controllers of pull secrets behave."""

    identity: str = "pull-secrets"
    config_map: ObjectKey = CONFIGURATION
    registry_services: tuple[ObjectKey, ...] = REGISTRY_SERVICES
    only_used: bool = False
    requests_per_second: float = PULL_SECRET_TOKENS_PER_SECOND
    signer_timing: SignerTiming = dataclasses.field(default_factory=SignerTiming)


def register_informers(cache: Cache, options: PullSecretOptions) -> None:
    """Follow the least that the controllers need; no token and no private key enters the cache."""
    cache.informer(SERVICE_ACCOUNTS, project=lambda obj: _keep(obj, "secrets", "imagePullSecrets"))
    cache.informer(NAMESPACES, project=lambda obj: {"metadata": {"labels": labels_of(obj)}})
    cache.informer(SECRETS, OF_PULL_SECRETS, project=project_pull_secret)
    # What tells whose token it is, and not the token.
    cache.informer(SECRETS, OF_LEGACY_TOKENS, project=lambda obj: _keep(obj, "type"))
    cache.informer(SECRETS, WatchScope.single(SIGNING_KEY_SECRET), project=project_signing_key)
    cache.informer(CONFIG_MAPS, WatchScope.single(options.config_map))
    for service in options.registry_services:
        cache.informer(SERVICES, WatchScope.single(service))
    cache.index(SECRETS, ACCOUNT_INDEX, accounts_of)
    if options.only_used:
        cache.informer(PODS, project=project_pod)
        cache.index(PODS, ACCOUNT_INDEX, lambda pod: (str(account_of_pod(pod)),))


def pull_secret_controllers(
    cache: Cache, pull_secrets: ImagePullSecretReconciler, signers: TriggerSource, *, only_used: bool
) -> tuple[ControllerSpec, ...]:
    client, events, settings = pull_secrets.client, pull_secrets.events, pull_secrets.settings
    accounts = ServiceAccountReconciler(cache, client, pull_secrets.clock, events, settings, only_used)
    every_secret = _when_settings_change(lambda _: [ObjectKey.of(secret) for secret in cache.list(SECRETS)])
    return (
        ControllerSpec("configuration", CONFIG_MAPS, ConfigurationReconciler(cache, events), workers=1),
        ControllerSpec(
            "serviceaccounts", SERVICE_ACCOUNTS, accounts, triggers=_account_triggers(cache, only_used=only_used)
        ),
        ControllerSpec(
            "imagepullsecrets",
            SECRETS,
            pull_secrets,
            triggers=(
                Trigger(SERVICE_ACCOUNTS, lambda obj: [s.key for s in secrets_of(cache, ObjectKey.of(obj))]),
                *_when_settings_change(lambda _: managed_secret_keys(cache)),
            ),
            trigger_source=signers,
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
            LegacyPullSecretReconciler(cache, client, settings, events),
            triggers=(Trigger(SECRETS, lambda obj: legacy_secrets_for_token(cache, obj)), *every_secret),
            concerns=lambda obj: ANNOTATION_TOKEN_SECRET in annotations_of(obj),
            acts_on_deletion=False,
        ),
    )


def _account_triggers(cache: Cache, *, only_used: bool) -> tuple[Trigger, ...]:
    return (
        Trigger(SECRETS, account_of_secret),
        Trigger(NAMESPACES, lambda obj: _keys_in(cache, obj["metadata"]["name"])),
        *((Trigger(PODS, lambda obj: (account_of_pod(obj),)),) if only_used else ()),
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


def managed_secret_keys(cache: Cache) -> list[ObjectKey]:
    found = (PullSecret.read(secret) for secret in cache.list(SECRETS))
    return [secret.key for secret in found if secret is not None and not secret.is_legacy]


def _keep(obj: Object, *fields: str) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name in _KEPT_METADATA}
    return {"metadata": metadata, **{name: obj[name] for name in ("apiVersion", "kind", *fields) if obj.get(name)}}


_KEPT_METADATA = frozenset({"annotations", "labels", "deletionTimestamp"})


def project_pod(pod: Object) -> Object:
    return {"metadata": {}, "spec": {"serviceAccountName": (pod.get("spec") or {}).get("serviceAccountName")}}


def _keys_in(cache: Cache, namespace: str) -> list[ObjectKey]:
    return [ObjectKey.of(account) for account in cache.list(SERVICE_ACCOUNTS, namespace=namespace)]


PULL_SECRETS_LEASE = ObjectKey(PULL_SECRETS_NAMESPACE, "watchword-pull-secrets-lock")


async def run_pull_secrets(
    client: Client, options: PullSecretOptions, *, clock: Clock, random: Random, stop: asyncio.Event | None = None
) -> None:
    """Run the controllers until asked to stop; raises what the manager raises."""
    manager = options.make_manager("watchword.dev/pull-secrets", PULL_SECRETS_LEASE, clock, random)
    connection = manager.connect(client)
    cache, client = connection.cache, connection.client
    evidence, signers = TokenEvidence(SigningKeys(options.signer_timing)), TriggerSource()
    pull_secrets = ImagePullSecretReconciler(
        cache,
        client,
        clock,
        connection.events,
        SettingsReader(cache, options.config_map, options.registry_services),
        evidence,
        PullSecretMetrics(options.metrics.registry, now=clock.now),
        TokenBucket(Rate(options.requests_per_second)),
    )
    register_informers(cache, options)
    manager.add(*pull_secret_controllers(cache, pull_secrets, signers, only_used=options.only_used))
    learn = SigningKeyReader(cache, client, evidence.keys).learn
    monitor = EvidenceMonitor(evidence, clock, random, learn, lambda: managed_secret_keys(cache), signers)
    manager.add_job("signing keys", monitor.run)
    await manager.run(stop)
