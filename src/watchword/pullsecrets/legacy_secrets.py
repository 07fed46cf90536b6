"""Marks what the legacy controller made from long-lived tokens, and deletes it in pairs."""

import contextlib

from msgspec import Struct

from watchword.api import pull_secrets
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, uid_of
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.pullsecrets.settings import SettingsReader
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader


class LegacyTokenReconciler(Struct, frozen=True):
    """Reconciles Secrets of type service-account-token: labels those of the legacy controller."""

    reader: Reader
    client: Client
    settings: SettingsReader

    async def reconcile(self, key: ObjectKey) -> Outcome:
        secret, settings = self.reader.get(SECRETS, key), self.settings.current()
        if secret is None or settings is None or is_deleting(secret) or not is_legacy_token(secret):
            return Done()
        wanted = "true" if settings.enabled else None
        if labels_of(secret).get(pull_secrets.LEGACY_TOKEN) != wanted:
            patch = {"metadata": {"uid": uid_of(secret), "labels": {pull_secrets.LEGACY_TOKEN: wanted}}}
            with contextlib.suppress(NotFound):  # deleted meanwhile
                await self.client.patch(SECRETS, key, patch)
        return Done()


class LegacyPullSecretReconciler(Struct, frozen=True):
    """Reconciles legacy pull secrets; also triggered by the token Secret that each was made from.

    Whichever of the two is deleted, the other follows.
    """

    reader: Reader
    client: Client
    settings: SettingsReader
    events: EventRecorder

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Add annotation and finalizer; on deletion delete the token Secret, then remove the finalizer."""
        found, settings = self.reader.get(SECRETS, key), self.settings.current()
        secret = None if found is None else PullSecret.read(found)
        if found is None or secret is None or not secret.is_legacy or settings is None:
            return Done()
        if secret.deleting:
            if pull_secrets.LEGACY_TOKEN in secret.finalizers:
                await self._delete_token(secret, deliberate=settings.enabled)
                await self._patch(secret, marked=False)
            return Done()
        if settings.enabled and await self._is_token_gone(secret):
            with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
                await self.client.delete(SECRETS, key, uid=secret.uid)
                note = f"pull secret {key} was deleted: its token {secret.legacy_token} is gone"
                self.events.normal(found, "PullSecretRemoved", note)
            return Done()
        await self._patch(secret, marked=settings.enabled)
        return Done()

    async def _delete_token(self, secret: PullSecret, *, deliberate: bool) -> None:
        key = ObjectKey(secret.key.namespace, secret.legacy_token)
        token = self.reader.get(SECRETS, key)
        same = token is not None and annotations_of(token).get(pull_secrets.ANNOTATION_ACCOUNT_NAME) == secret.account
        if deliberate and token is not None and same and is_legacy_token(token):
            with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
                await self.client.delete(SECRETS, key, uid=uid_of(token))
                self.events.normal(token, "LegacyTokenRemoved", f"token {key} was deleted with its pull secret")

    async def _is_token_gone(self, secret: PullSecret) -> bool:
        """Whether the token Secret does not exist; the server is asked, because a cache can be behind."""
        key = ObjectKey(secret.key.namespace, secret.legacy_token)
        return self.reader.get(SECRETS, key) is None and await self.client.find(SECRETS, key) is None

    async def _patch(self, secret: PullSecret, *, marked: bool) -> None:
        finalizers = [name for name in secret.finalizers if marked or name != pull_secrets.LEGACY_TOKEN]
        if marked and pull_secrets.LEGACY_TOKEN not in finalizers:
            finalizers.append(pull_secrets.LEGACY_TOKEN)
        binding = pull_secrets.LEGACY if marked or secret.deleting else ""
        if finalizers == list(secret.finalizers) and binding == secret.binding:
            return
        metadata: Object = {
            "uid": secret.uid,
            "resourceVersion": secret.version,
            "finalizers": finalizers,
            "annotations": {pull_secrets.ANNOTATION_BINDING: binding or None},
        }
        with contextlib.suppress(NotFound):  # deleted meanwhile
            await self.client.patch(SECRETS, secret.key, {"metadata": metadata})


def is_legacy_token(secret: Object) -> bool:
    annotations = annotations_of(secret)
    return (
        secret.get("type") == pull_secrets.SERVICE_ACCOUNT_TOKEN_TYPE
        and annotations.get(pull_secrets.ANNOTATION_CREATED_BY) == pull_secrets.CREATED_BY_LEGACY_CONTROLLER
        and bool(annotations.get(pull_secrets.ANNOTATION_ACCOUNT_NAME))
    )
