"""Declares driver and subject of each add-on, decides the content of its Secrets, and reports on them to the hub."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.addons.catalog import AddonCatalog
from watchword.api.addon import CUSTOM_SIGNER, KUBE_CLIENT, Addon, Registration
from watchword.api.conditions import Condition
from watchword.api.credential_report import CredentialValidity, format_issued
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import NAME_CONFLICT, Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.credential_secret import (
    CLUSTER_NAME,
    CredentialKeeper,
    CredentialSpec,
    HubKubeconfigRenderer,
    SecretExtras,
    decode_data,
)
from watchword.credentials.driver import (
    KUBECONFIG,
    AgentDriver,
    CredentialStatus,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
)
from watchword.credentials.lifecycle import GrowingPause
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, ConfigError, Forbidden, Invalid, NotFound
from watchword.kube.tls import ClientCertificate
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import delete_object, with_preconditions
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.metrics import CredentialMetrics, remaining_life
from watchword.runtime.reconcile import FIRST_RECHECK, Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

INDEX = "credential-secret"


class AddonDrivers(Struct, frozen=True):
    """Which driver serves which registration of an add-on."""

    catalog: AddonCatalog
    auth: str  # the driver for the hub's API; empty: the default

    def name_for(self, registration: Registration) -> str:
        """Return the driver of a registration: the agent's flag decides for the hub's API."""
        if registration.type == CUSTOM_SIGNER:
            return self.catalog.certificates
        return self.catalog.find(self.auth).name


class AddonRegistrationReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn on the hub. The add-on's hub controller writes the list, this fills it in."""

    hub: Reader
    status: StatusWriter
    drivers: AddonDrivers

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:
            return Done()
        addon = Addon.read(found)
        if addon.deleting or not addon.registrations:
            return Done()
        # The list has two writers: what was decided from an older version of it must not be written again.
        await self.status.write_if_unchanged(
            MANAGED_CLUSTER_ADDONS, found, choose_registration_status(addon, self.drivers)
        )
        return Done()


def choose_registration_status(addon: Addon, drivers: AddonDrivers) -> StatusChange:
    """Return the completed registrations, without the conditions of drivers that serve none of them."""
    completed = tuple(complete_registration(addon, row, drivers) for row in addon.registrations)
    conditions = {name: row.credential.condition_types for name, row in drivers.catalog.by_name.items()}
    kept = {type_ for row in completed for type_ in conditions[drivers.name_for(row)]}
    obsolete = tuple(type_ for types in conditions.values() for type_ in types if type_ not in kept)
    return StatusChange(without=obsolete, fields=addon.registration_fields(completed))


def complete_registration(addon: Addon, registration: Registration, drivers: AddonDrivers) -> Registration:
    driver = drivers.name_for(registration)
    subject = drivers.catalog.by_name[driver].subjects.choose(addon, registration)
    return replace(registration, subject=subject, driver=driver if registration.type == KUBE_CLIENT else "")


class CredentialSecret(Struct, frozen=True):
    """One credential of one add-on, in one Secret."""

    key: ObjectKey
    addon: Addon
    registration: Registration


class AddonCredentialIndex(Struct, frozen=True):
    """Looks up add-ons of this cluster by the Secrets of their credentials, and the other way round."""

    reader: Reader  # of the hub
    cluster: str
    namespace: str  # the default namespace of add-ons

    def credential_secrets(self, addon: Addon) -> list[CredentialSecret]:
        """Return the add-on's credentials; registrations that mean the same Secret are one."""
        namespace = addon.namespace_on_cluster(self.namespace)
        found: dict[ObjectKey, CredentialSecret] = {}
        for registration in addon.registrations:
            key = ObjectKey(namespace, registration.secret_name(addon.name))
            found.setdefault(key, CredentialSecret(key, addon, registration))
        return list(found.values())

    def keys(self, obj: Object) -> list[ObjectKey]:
        return [credential_secret.key for credential_secret in self.credential_secrets(Addon.read(obj))]

    def all_secret_keys(self) -> list[ObjectKey]:
        return [key for obj in self.reader.list(MANAGED_CLUSTER_ADDONS) for key in self.keys(obj)]

    def secret_keys_of(self, addon: str) -> list[ObjectKey]:
        obj = self.reader.get(MANAGED_CLUSTER_ADDONS, ObjectKey(self.cluster, addon))
        return [] if obj is None else self.keys(obj)

    def find(self, key: ObjectKey, secret: Object | None) -> CredentialSecret | None:
        """Return whose credential a Secret holds; of two that mean the same name, the one it was made for."""
        candidates = self.candidates(key)
        made_for = labels_of(secret or {}).get(Label.ADDON_NAME)
        named = [credential_secret for credential_secret in candidates if credential_secret.addon.name == made_for]
        return next(iter(named or candidates), None)

    def candidates(self, key: ObjectKey) -> list[CredentialSecret]:
        return [
            credential_secret
            for obj in self.reader.by_index(MANAGED_CLUSTER_ADDONS, INDEX, str(key))
            for credential_secret in self.credential_secrets(Addon.read(obj))
            if credential_secret.key == key
        ]

    def labels(self, addon: Addon) -> dict[str, str]:
        """Return what marks a Secret as ours, so that it is found again after a restart."""
        return {Label.CLUSTER_NAME: self.cluster, Label.ADDON_NAME: addon.name}

    def is_labeled(self, secret: Object) -> bool:
        labels = labels_of(secret)
        return labels.get(Label.CLUSTER_NAME) == self.cluster and Label.ADDON_NAME in labels

    def may_adopt(self, secret: Object, addon: Addon) -> bool:
        """Whether a Secret is this add-on's: labelled so, or with the cluster's name in it and no other label.

        Agents of Open Cluster Management store the cluster's name with every credential, and do not label Secrets; a
        label of ours may have been removed. Any other Secret of that name has another owner and stays as it is.
        """
        labels, own = labels_of(secret), self.labels(addon)
        if any(labels.get(name, text) != text for name, text in own.items()):
            return False
        return own.items() <= labels.items() or decode_data(secret).get(CLUSTER_NAME) == self.cluster.encode()


class HubAccess(Protocol):
    """How the agent reaches its hub, as far as add-ons depend on it."""

    @property
    def kubeconfigs(self) -> HubKubeconfigRenderer: ...

    @property
    def uses_own_credential(self) -> bool:
        """Whether the agent has its own credential, not that of a joining cluster."""
        ...


class AddonCredentials(Struct, frozen=True):
    """One driver instance for each registration; the last results are stored for the condition."""

    credential_index: AddonCredentialIndex
    secrets: Reader  # of this cluster
    status: StatusWriter  # of the hub
    events: EventRecorder  # of this cluster, for administrators when the hub cannot be reached
    drivers: AddonDrivers
    agent_drivers: Mapping[str, AgentDriver]
    session: HubAccess
    metrics: CredentialMetrics
    clock: Clock
    statuses: dict[str, dict[ObjectKey, CredentialStatus]] = field(default_factory=dict)  # of the Secrets of an add-on
    validities: dict[ObjectKey, CredentialValidity] = field(default_factory=dict)  # Secret → that of its credential
    waiting_since: dict[ObjectKey, datetime] = field(default_factory=dict)  # Secret → since when it has no credential

    def spec(self, credential_secret: CredentialSecret) -> CredentialSpec | None:
        """Return what is kept in a Secret; None while the registration is not declared yet."""
        addon, registration = credential_secret.addon, credential_secret.registration
        name = self.drivers.name_for(registration)
        if complete_registration(addon, registration, self.drivers) != registration and not addon.deleting:
            return None  # the declaration is being written, and its event triggers the reconciler
        driver = self.agent_drivers[name]
        wanted = self.drivers.catalog.by_name[name].wanted(addon, registration)
        return CredentialSpec(
            wanted, driver, self._secret_extras(credential_secret, driver), self.credential_index.labels(addon)
        )

    def held_tokens(self) -> list[Sensitive[str]]:
        """Return the tokens in Secrets that are watched; an add-on's namespace is watched once it is reconciled."""
        files = [driver.user_entry().token_file for driver in self.agent_drivers.values()]
        found = (data.get(file.name) for data in self._held() for file in files if file is not None)
        return [Sensitive(text.decode(errors="replace")) for text in found if text is not None]

    def held_certificates(self) -> list[ClientCertificate]:
        """Return the certificates for the hub's API in the same Secrets: those of other signers have no kubeconfig."""
        users = (driver.user_entry() for driver in self.agent_drivers.values())
        files = [(user.certificate_file, user.key_file) for user in users]
        names = [(chain.name, key.name) for chain, key in files if chain is not None and key is not None]
        held = [data for data in self._held() if KUBECONFIG in data]
        found = ((data.get(chain), data.get(key)) for data in held for chain, key in names)
        return [ClientCertificate(chain, Sensitive(key)) for chain, key in found if chain and key]

    def _held(self) -> Iterator[SecretData]:
        return (decode_data(obj) for obj in self.secrets.list(SECRETS) if self.credential_index.is_labeled(obj))

    def _secret_extras(self, credential_secret: CredentialSecret, driver: AgentDriver) -> SecretExtras:
        frame = {CLUSTER_NAME: self.credential_index.cluster.encode()}
        others = frozenset[str]().union(*(other.owned_keys() for other in self.agent_drivers.values()))
        obsolete_keys = others - driver.owned_keys()
        if credential_secret.registration.type != KUBE_CLIENT:
            return SecretExtras(frame, obsolete_keys=obsolete_keys)
        return SecretExtras(frame, {KUBECONFIG: self.session.kubeconfigs.for_user(driver.user_entry())}, obsolete_keys)

    async def report_status(self, credential_secret: CredentialSecret, answer: ObtainResult) -> None:
        key = credential_secret.key
        secret = self.secrets.get(SECRETS, key)
        if isinstance(answer, Pending) and secret is not None:
            self.events.warning(secret, answer.reason, answer.message)
        self._count(credential_secret, answer)
        statuses = self.statuses.setdefault(credential_secret.addon.name, {})
        statuses[key] = _status_of(credential_secret.registration, answer)
        conditions = self._conditions(credential_secret)
        if conditions:
            await self.status.write(
                MANAGED_CLUSTER_ADDONS, credential_secret.addon.object, StatusChange(conditions=conditions)
            )

    def _count(self, credential_secret: CredentialSecret, answer: ObtainResult) -> None:
        """Count a rotation or a refusal; names of add-ons are not labels, because their number is not bounded."""
        kind = f"addon-{self.drivers.name_for(credential_secret.registration)}"
        if isinstance(answer, Pending):
            if answer.failed:
                self.metrics.rotation_failed(kind, answer.reason)
            return
        before, now = self.validities.pop(credential_secret.key, None), self.clock.now()
        if answer.expires_at is None:
            return
        self.validities[credential_secret.key] = CredentialValidity(answer.issued_at, answer.expires_at)
        if isinstance(answer, NewCredential) and before is not None and before.expires is not None:
            left = (before.expires - now) / (answer.expires_at - answer.issued_at)
            self.metrics.rotated(kind, remaining_ratio=max(0.0, left))
        self.metrics.watch_expiry(
            "addon",
            self.credential_index.cluster,
            lambda: remaining_life(self.validities.values(), now=self.clock.now()),
        )

    def _conditions(self, credential_secret: CredentialSecret) -> tuple[Condition, ...]:
        name = self.drivers.name_for(credential_secret.registration)
        statuses = self.statuses[credential_secret.addon.name]
        alike = {
            other.key: other.registration.type
            for other in self.credential_index.credential_secrets(credential_secret.addon)
            if self.drivers.name_for(other.registration) == name
        }
        words = [statuses[key] for key in sorted(alike) if key in statuses]
        is_hub_known = any(kind == KUBE_CLIENT and key in statuses for key, kind in alike.items())
        if len(words) < len(alike) and all(word.good for word in words) and not is_hub_known:
            return ()  # the others follow, and one write reports them all
        return self.drivers.catalog.by_name[name].credential.report(words)

    def is_overdue(self, key: ObjectKey) -> bool:
        """Whether a credential has been awaited for so long that it is reported."""
        now = self.clock.now()
        return now - self.waiting_since.setdefault(key, now) >= UNREPORTED_WAIT

    def forget(self, key: ObjectKey) -> None:
        self.validities.pop(key, None)
        self.waiting_since.pop(key, None)
        for statuses in self.statuses.values():
            statuses.pop(key, None)


class AddonCredentialObserver(Struct, frozen=True):
    """Reports one credential of an add-on: obtained, refused, or awaited for long while there is none to use."""

    credentials: AddonCredentials
    credential_secret: CredentialSecret
    spec: CredentialSpec

    async def on_answer(self, answer: ObtainResult, data: SecretData) -> None:
        key = self.credential_secret.key
        if isinstance(answer, Pending) and not answer.failed:
            is_usable = self.spec.driver.assess(self.spec.wanted, data) is not None
            if is_usable or not self.credentials.is_overdue(key):
                return
        else:
            self.credentials.waiting_since.pop(key, None)
        await self.credentials.report_status(self.credential_secret, answer)


def _status_of(registration: Registration, answer: ObtainResult) -> CredentialStatus:
    if not isinstance(answer, Pending):
        return CredentialStatus(True, "", answer.message + format_issued(answer.credential_id))
    whose = "" if registration.type == KUBE_CLIENT else f"{registration.signer}: "
    return CredentialStatus(False, answer.reason, whose + answer.message)


UNREPORTED_WAIT = timedelta(minutes=1)  # most are issued sooner, and need no report in between
LABELED_RECHECK = timedelta(seconds=30)  # its label makes it visible, and its event triggers the reconciler sooner
BOOTSTRAP_RECHECK = timedelta(minutes=1)  # the cluster's own credential triggers a reconcile, perhaps before its use

WatchNamespace = Callable[[str], Awaitable[None]]
"""Follow the add-ons' Secrets of one more namespace; returns once they are listed."""


class AddonSecretReconciler(Struct, frozen=True):
    """Reconciles the Secrets of add-ons; triggered by them, their add-on, requests, and the agent's own Secret."""

    reader: Reader  # of this cluster
    cluster: Client
    credentials: AddonCredentials
    keeper: CredentialKeeper
    watch_namespace: WatchNamespace
    own: ObjectKey  # the Secret of the agent itself: seen here, kept elsewhere
    storage_pauses: dict[ObjectKey, GrowingPause] = field(default_factory=dict)  # what is issued then is lost

    async def reconcile(self, key: ObjectKey) -> Outcome:
        if key == self.own:
            return Done()
        await self.watch_namespace(key.namespace)
        credential_secret = self.credentials.credential_index.find(key, self.reader.get(SECRETS, key))
        if credential_secret is None:
            return await self._delete_orphaned(key)
        pause, now = self.storage_pauses.get(key), self.credentials.clock.now()
        if pause is not None and pause.left(now):
            return RetryAfter(pause.left(now))
        for rival in self.credentials.credential_index.candidates(key):
            if rival.addon.name != credential_secret.addon.name:
                await self._report_conflict(rival)
        try:
            return await self._reconcile_credential(key, credential_secret)
        except AlreadyExists:
            return await self._adopt(key, credential_secret)
        except (Forbidden, NotFound, Invalid, ConfigError) as error:
            message = f"the credential cannot be stored in Secret {key}: {error}"
            await self._report_failure(credential_secret, "SecretNotStored", message)
            pause = self.storage_pauses.setdefault(key, GrowingPause(timedelta(seconds=1), timedelta(minutes=5)))
            pause.record(now, failed=True)
            raise

    async def _reconcile_credential(self, key: ObjectKey, credential_secret: CredentialSecret) -> Outcome:
        secret = self.reader.get(SECRETS, key)
        if secret is not None and not self.credentials.credential_index.may_adopt(secret, credential_secret.addon):
            return await self._report_conflict(credential_secret)
        if secret is not None and is_deleting(secret):
            return Done()  # its deletion triggers the reconciler
        if not self.credentials.session.uses_own_credential:
            return RetryAfter(BOOTSTRAP_RECHECK)  # the hub decides no request for an add-on of a joining cluster
        spec = self.credentials.spec(credential_secret)
        if spec is None:
            self.keeper.release(key)
            return Done()
        observer = AddonCredentialObserver(self.credentials, credential_secret, spec)

        async def on_answer(answer: ObtainResult, data: SecretData) -> None:
            if not isinstance(answer, Pending):  # it is in its Secret
                self.storage_pauses.pop(key, None)
            await observer.on_answer(answer, data)

        return await self.keeper.advance(key, spec, on_answer)

    async def _delete_orphaned(self, key: ObjectKey) -> Outcome:
        """Remove what was made for an add-on that is gone, also when it went while no agent ran."""
        secret = self.reader.get(SECRETS, key)
        self.credentials.forget(key)
        self.keeper.release(key)
        self.storage_pauses.pop(key, None)
        if secret is not None and self.credentials.credential_index.is_labeled(secret) and not is_deleting(secret):
            await delete_object(self.cluster, SECRETS, secret)
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
        await self._report_failure(credential_secret, NAME_CONFLICT, message)
        return Done()

    async def _report_failure(self, credential_secret: CredentialSecret, reason: str, message: str) -> None:
        refusal = Pending(reason, message, recheck=FIRST_RECHECK, failed=True)
        await self.credentials.report_status(credential_secret, refusal)
