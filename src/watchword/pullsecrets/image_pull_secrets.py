"""Keeps a valid token for every registry in each managed image pull secret."""

import asyncio
import base64
import contextlib

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import ANNOTATION_BINDING, BOUND, DOCKERCFG_KEY
from watchword.api.rate_limit import TokenBucket
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.credentials.evidence import TokenEvidence, TokenRequest
from watchword.credentials.lifecycle import Keep, Obtain, Reason, Retire
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, KubeError, NotFound
from watchword.pullsecrets.account_plan import belongs_to, choose_secret_name
from watchword.pullsecrets.pull_secret import PullSecret, account_annotations, render_dockercfg
from watchword.pullsecrets.refresh import decide_refresh
from watchword.pullsecrets.service_accounts import secrets_of
from watchword.pullsecrets.settings import PullSecretMetrics, Settings, SettingsReader
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.raw_objects import is_newer
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter


class ImagePullSecretReconciler(Struct, frozen=True):
    """Reconciles Secrets of type dockercfg; also triggered by their ServiceAccount, the settings and signing keys."""

    reader: Reader
    client: Client
    clock: Clock
    events: EventRecorder
    settings: SettingsReader
    evidence: TokenEvidence
    metrics: PullSecretMetrics
    rate: TokenBucket  # however many pull secrets are due at once
    written: dict[str, str] = field(default_factory=dict)  # UID → its version as this process last wrote it
    uids: dict[ObjectKey, str] = field(default_factory=dict)  # of the secrets that are counted

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(SECRETS, key)
        secret = None if found is None else PullSecret.read(found)
        uid = "" if secret is None or secret.is_legacy else secret.uid
        before = self.uids.pop(key, "")
        if before and before != uid:
            self.metrics.forget(before)
            self.written.pop(before, None)
        if secret is not None and uid:
            self.uids[key] = uid
            self.metrics.observe(secret)
        if secret is None or secret.is_legacy or secret.deleting or self._is_behind(secret):
            return Done()
        settings = self.settings.current() or Settings(enabled=False)
        account = self.reader.get(SERVICE_ACCOUNTS, secret.account_key)
        if account is not None and not (settings.enabled and settings.registries and self._is_chosen(secret, account)):
            return Done()
        now, account_uid = self.clock.now(), None if account is None else uid_of(account)
        match decide_refresh(secret, settings, self.evidence, account_uid=account_uid, now=now):
            case Retire():
                # Delete a secret that lost its owner reference; with one, garbage collection does it.
                if secret.binding == BOUND and not secret.owner_uid:
                    with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
                        await self.client.delete(SECRETS, secret.key, uid=secret.uid)
                        note = f"pull secret {secret.key} was deleted: its ServiceAccount {secret.account} is gone"
                        self.events.normal((found or {}), "PullSecretRemoved", note)
            case Obtain(reason):
                await self._refresh(found or {}, secret, settings, reason)  # the write triggers the next look
            case Keep(until):
                if secret.binding != BOUND:
                    await self._write(found or {}, secret, None)
                return Done() if until is None else RetryAfter(until - now)
        return Done()

    def _is_behind(self, secret: PullSecret) -> bool:
        """Whether the cache shows a state that this process has replaced; drops what the cache has caught up with."""
        written = self.written.get(secret.uid)
        if written is not None and is_newer(written, secret.version):
            return True
        self.written.pop(secret.uid, None)
        return False

    def _is_chosen(self, secret: PullSecret, account: Object) -> bool:
        """Whether the account has this pull secret: a Secret that only claims it gets no token."""
        if secret.owner_uid != uid_of(account) or not belongs_to(secret, account):
            return False
        return choose_secret_name(account, secrets_of(self.reader, secret.account_key)) == secret.key.name

    async def _refresh(self, found: Object, secret: PullSecret, settings: Settings, reason: Reason) -> None:
        await asyncio.sleep(self.rate.reserve(asyncio.get_running_loop().time()))
        started = asyncio.get_running_loop().time()
        try:
            wanted = TokenRequest(
                account=secret.account_key,
                uid=secret.owner_uid,
                lifetime=settings.lifetime,
                audiences=settings.audiences,
                bound_to={"apiVersion": "v1", "kind": "Secret", "name": secret.key.name, "uid": secret.uid},
            )
            token = (await self.evidence.obtain(self.client, wanted, now=self.clock.now())).token
            await self._write(found, secret, render_dockercfg(settings.registries, token))
        except (Conflict, NotFound):  # changed or deleted meanwhile: the cache catches up and shows what is left to do
            raise
        except KubeError as error:
            self.metrics.failed(reason, error)
            self.events.warning(found, "PullSecretRefreshFailed", f"no new token ({reason}): {error}")
            raise
        self.events.normal(found, "PullSecretRefreshed", f"a new token was written ({reason})")
        self.metrics.refreshed(reason, seconds=asyncio.get_running_loop().time() - started)
        if reason is Reason.MISSING:
            now = self.clock.now()
            waited = now - (parse_rfc3339(secret.created_at) or now)
            self.metrics.first_token.observe(max(0.0, waited.total_seconds()))

    async def _write(self, found: Object, secret: PullSecret, dockercfg: bytes | None) -> None:
        """Patch this very Secret at this very version: a deleted one stays deleted, a newer token stays.

        Annotations that are there are not sent: a field that is written again and again counts as contested.
        """
        present = annotations_of(found)
        wanted = {ANNOTATION_BINDING: BOUND, **account_annotations(secret.account)}
        changed = {name: text for name, text in wanted.items() if present.get(name) != text}
        patch: Object = {"metadata": {"uid": secret.uid, "resourceVersion": secret.version}}
        if changed:
            patch["metadata"]["annotations"] = changed
        if dockercfg is not None:
            patch["data"] = {DOCKERCFG_KEY: base64.b64encode(dockercfg).decode()}
        written = await self.client.patch(SECRETS, secret.key, patch)
        self.written[secret.uid] = written["metadata"]["resourceVersion"]
