"""Keeps every add-on's credential in its Secret, and removes the Secrets of add-ons that are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec import Struct

from watchword.agent.addons.credential_index import CredentialSecret
from watchword.agent.addons.credentials import AddonCredentialObserver, AddonCredentials
from watchword.agent.credential import CredentialKeeper
from watchword.api.meta import ObjectKey, is_deleting, uid_of
from watchword.api.resources import SECRETS
from watchword.drivers.interface import Pending
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, ConfigError, Forbidden, Invalid, NotFound
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

LABELED_RECHECK = timedelta(seconds=30)  # its label makes it visible, and its event triggers the reconciler sooner
CONFLICT_RECHECK = timedelta(minutes=1)  # the object in the way has no label of ours, so its removal triggers nothing
BOOTSTRAP_RECHECK = timedelta(
    minutes=1
)  # a credential of the cluster's own triggers the reconciler, perhaps before it is used

WatchNamespace = Callable[[str], Awaitable[None]]
"""Follow the add-ons' Secrets of one more namespace; returns when it is known what is there."""


class AddonSecretReconciler(Struct, frozen=True):
    """Reconciles the Secrets of add-ons; triggered by them, their add-on, requests, and the agent's own Secret."""

    reader: Reader  # of this cluster
    cluster: Client
    credentials: AddonCredentials
    keeper: CredentialKeeper
    watch_namespace: WatchNamespace
    own: ObjectKey  # the Secret of the agent itself: seen here, kept elsewhere

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Bring the Secret in line with its add-on's registration."""
        if key == self.own:
            return Done()
        await self.watch_namespace(key.namespace)
        credential_secret = self.credentials.credential_secret(key)
        if credential_secret is None:
            return await self._delete_orphaned(key)
        for rival in self.credentials.credential_index.candidates(key):
            if rival.addon.name != credential_secret.addon.name:
                await self._report_conflict(rival)
        try:
            return await self._reconcile_credential(key, credential_secret)
        except AlreadyExists:
            return await self._adopt(key, credential_secret)
        except (Forbidden, NotFound, Invalid, ConfigError) as trouble:
            message = f"the credential cannot be stored in Secret {key}: {trouble}"
            await self._report_failure(credential_secret, "SecretNotStored", message)
            raise

    async def _reconcile_credential(self, key: ObjectKey, credential_secret: CredentialSecret) -> Outcome:
        secret = self.reader.get(SECRETS, key)
        if secret is not None and not self.credentials.credential_index.may_adopt(secret, credential_secret.addon):
            return await self._report_conflict(credential_secret)
        if secret is not None and is_deleting(secret):
            return Done()  # its deletion triggers the reconciler
        if not self.credentials.session.uses_own_credential:
            return RetryAfter(
                BOOTSTRAP_RECHECK
            )  # no controller decides about a joining cluster's request for an add-on
        spec = self.credentials.spec(credential_secret)
        if spec is None:
            self.keeper.release(key)
            return Done()
        return await self.keeper.advance(key, spec, AddonCredentialObserver(self.credentials, credential_secret))

    async def _delete_orphaned(self, key: ObjectKey) -> Outcome:
        """Remove what was made for an add-on that is gone, also when it went while no agent ran."""
        secret = self.reader.get(SECRETS, key)
        self.credentials.forget(key)
        self.keeper.release(key)
        if secret is not None and self.credentials.credential_index.is_labeled(secret) and not is_deleting(secret):
            with contextlib.suppress(NotFound):  # another writer was faster
                await self.cluster.delete(SECRETS, key, uid=uid_of(secret))
        return Done()

    async def _adopt(self, key: ObjectKey, credential_secret: CredentialSecret) -> Outcome:
        """Mark a Secret that another agent left behind; whatever else has the name stays as it is."""
        present = await self.cluster.get(SECRETS, key)
        if not self.credentials.credential_index.may_adopt(present, credential_secret.addon):
            return await self._report_conflict(credential_secret)
        labels = self.credentials.credential_index.labels(credential_secret.addon)
        await self.cluster.patch(SECRETS, key, with_preconditions(present, {"metadata": {"labels": labels}}))
        return RetryAfter(LABELED_RECHECK)

    async def _report_conflict(self, credential_secret: CredentialSecret) -> Outcome:
        message = f"Secret {credential_secret.key} exists and was not made for this add-on: rename or remove it"
        await self._report_failure(credential_secret, "NameConflict", message)
        return RetryAfter(CONFLICT_RECHECK)

    async def _report_failure(self, credential_secret: CredentialSecret, reason: str, message: str) -> None:
        refusal = Pending(reason, message, recheck=CONFLICT_RECHECK, failed=True)
        await self.credentials.report_status(credential_secret, refusal)


async def wait_with_timeout(ready: Awaitable[None], *, seconds: float = 10.0) -> None:
    """Wait, but not for ever: what may not be listed can still be written."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ready
