"""Gives every ServiceAccount one image pull secret, and lists it once it holds a credential."""

import contextlib

from msgspec import Struct

from watchword.api import pull_secrets
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, owner_reference, uid_of
from watchword.api.resources import NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.kube.client import FIELD_MANAGER, Client
from watchword.kube.errors import AlreadyExists, Conflict, NotFound
from watchword.pullsecrets import pull_secret
from watchword.pullsecrets.account_plan import decide_account, is_disabled
from watchword.pullsecrets.settings import Settings, SettingsReader
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.errors import FieldContested, NameConflict
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

ACCOUNT_INDEX = "account"
OPT_OUT = f"{pull_secrets.LABEL_PULL_SECRETS}={pull_secrets.DISABLED}"
EMPTY_DOCKERCFG = "e30="  # {}


class ServiceAccountReconciler(Struct, frozen=True):
    """Reconciles ServiceAccount; also triggered by its pull secrets, its Namespace, its pods and the settings."""

    reader: Reader
    client: Client
    clock: Clock
    events: EventRecorder
    settings: SettingsReader
    only_used: bool = False  # manage only accounts that a pod has used

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Create, list or remove the pull secret of one account; write nothing when nothing differs."""
        account = self.reader.get(SERVICE_ACCOUNTS, key)
        settings = self.settings.current()
        if account is None or is_deleting(account) or settings is None:
            return Done()
        secrets = secrets_of(self.reader, key)
        if not secrets and settings.enabled and not self._is_wanted(key, settings):
            return Done()
        selected = settings.enabled and not self._is_opted_out(account)
        plan = decide_account(account, secrets, selected=selected, now=self.clock.now())
        if plan.create:
            await self._create(account, plan.create)
        if plan.mend is not None:
            # Restore owner and annotations; the credential is not part of the patch, so no old token returns.
            patch = {"metadata": {**_identity_of(account), "uid": plan.mend.uid, "resourceVersion": plan.mend.version}}
            await self.client.patch(SECRETS, plan.mend.key, patch)
        if plan.changes is not None:
            await self._patch(account, plan.changes)
        for secret in plan.remove:
            with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
                await self.client.delete(SECRETS, secret.key, uid=secret.uid)
                note = f"pull secret {secret.key} was deleted: its token is refused from now on"
                self.events.normal(account, "PullSecretRemoved", note)
        return Done() if plan.recheck_in is None else RetryAfter(plan.recheck_in)

    def _is_opted_out(self, account: Object) -> bool:
        namespace = self.reader.get(NAMESPACES, ObjectKey.cluster(account["metadata"]["namespace"]))
        return is_disabled(account) or is_disabled(namespace)

    def _is_wanted(self, key: ObjectKey, settings: Settings) -> bool:
        """Whether a first pull secret is made: there is a registry to pull from, and a pod if pods decide."""
        used = not self.only_used or bool(self.reader.by_index(PODS, ACCOUNT_INDEX, str(key)))
        return used and bool(settings.registries)

    async def _patch(self, account: Object, changes: Object) -> None:
        try:
            await self.client.patch(SERVICE_ACCOUNTS, ObjectKey.of(account), with_preconditions(account, changes))
        except FieldContested:
            # Tell who removes the pull secret again and again; the cache keeps no managers, so the server is asked.
            found = await self.client.find(SERVICE_ACCOUNTS, ObjectKey.of(account))
            names = other_managers(found, own=FIELD_MANAGER) if found is not None else []
            note = f"another program keeps removing the pull secret: {', '.join(names) or 'unknown'}"
            self.events.warning(
                account, "ServiceAccountRewritten", f"{note}; let it keep imagePullSecrets, or label it {OPT_OUT}"
            )
            raise

    async def _create(self, account: Object, name: str) -> None:
        key = ObjectKey(account["metadata"]["namespace"], name)
        wanted = SECRETS.manifest(
            key,
            metadata=_identity_of(account),
            type=pull_secrets.DOCKERCFG_TYPE,
            data={pull_secrets.DOCKERCFG_KEY: EMPTY_DOCKERCFG},
        )
        try:
            await self.client.create(SECRETS, wanted)
            self.events.normal(account, "PullSecretCreated", f"pull secret {key} was created, without a token at first")
        except AlreadyExists:
            await self._resolve_taken_name(account, key)

    async def _resolve_taken_name(self, account: Object, key: ObjectKey) -> None:
        """Leave a Secret that the cache does not show: it is ours and new, or another's and stays as it is."""
        found = await self.client.find(SECRETS, key)
        if found is None:
            return
        if is_owned_by(found, account):
            # Give an owned Secret its annotations back; with them it is in the cache already, or soon.
            if pull_secret.named_account(annotations_of(found)) != account["metadata"]["name"]:
                patch = with_preconditions(found, {"metadata": _identity_of(account)})
                await self.client.patch(SECRETS, ObjectKey.of(found), patch)
            return
        default = pull_secret.default_secret_name(ObjectKey.of(account), uid_of(account))
        note = f"Secret {key} exists and is not the pull secret of this ServiceAccount"
        if key.name == default:
            self.events.warning(account, "PullSecretNameTaken", f"{note}: delete it")
            raise NameConflict(f"{note}: delete it, and the pull secret is made")
        self.events.warning(account, "PullSecretReferenceRefused", f"{note}: {default} is used instead")
        changes = {"metadata": {"annotations": {pull_secrets.ANNOTATION_PULL_SECRET: default}}}
        await self._patch(account, changes)


def secrets_of(reader: Reader, account: ObjectKey) -> list[pull_secret.PullSecret]:
    """Return every pull secret that names an account, whether it is the account's or not."""
    found = (pull_secret.PullSecret.read(secret) for secret in reader.by_index(SECRETS, ACCOUNT_INDEX, str(account)))
    return [secret for secret in found if secret is not None]


def is_owned_by(secret: Object, account: Object) -> bool:
    return secret.get("type") == pull_secrets.DOCKERCFG_TYPE and pull_secret.owner_uid_of(secret) == uid_of(account)


def _identity_of(account: Object) -> Object:
    return {
        "annotations": pull_secret.account_annotations(account["metadata"]["name"]),
        "ownerReferences": [owner_reference(account)],
    }


def other_managers(account: Object, *, own: str) -> list[str]:
    rows = account["metadata"].get("managedFields") or ()
    found = {str(row.get("manager")) for row in rows if _is_contested(row.get("fieldsV1") or {})}
    return sorted(found - {own})


def _is_contested(fields: Object) -> bool:
    return "f:imagePullSecrets" in fields or "f:annotations" in (fields.get("f:metadata") or {})
