"""Decides the content of each add-on's Secret, and reports on it to the hub."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from watchword.agent.addons.credential_index import AddonCredentialIndex, CredentialSecret
from watchword.agent.addons.registration import AddonDrivers, complete_registration
from watchword.agent.credential import CredentialSpec
from watchword.agent.hub_session import HubSession
from watchword.agent.secret_data import CLUSTER_NAME, SecretExtras
from watchword.api.addon import KUBE_CLIENT
from watchword.api.conditions import Condition
from watchword.api.credential_use import format_issued
from watchword.api.credential_validity import CredentialValidity
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, SECRETS
from watchword.drivers.descriptor import CredentialStatus
from watchword.drivers.interface import KUBECONFIG, AgentDriver, NewCredential, ObtainResult, Pending, SecretData
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life
from watchword.runtime.reconcile import Reader
from watchword.runtime.status import StatusChange, StatusWriter


class AddonCredentials(Struct, frozen=True):
    """One driver instance for each registration; the last results are stored for the condition."""

    credential_index: AddonCredentialIndex
    secrets: Reader  # of this cluster
    status: StatusWriter  # of the hub
    events: EventRecorder  # of this cluster, for administrators when the hub cannot be reached
    drivers: AddonDrivers
    agent_drivers: Mapping[str, AgentDriver]
    session: HubSession
    metrics: CredentialMetrics
    clock: Clock
    statuses: dict[str, dict[ObjectKey, CredentialStatus]] = field(default_factory=dict)  # add-on → Secret → last word
    validities: dict[ObjectKey, CredentialValidity] = field(default_factory=dict)  # Secret → that of its credential

    def credential_secret(self, key: ObjectKey) -> CredentialSecret | None:
        """Return whose credential is in a Secret, None when it is not needed any more."""
        return self.credential_index.find(key, self.secrets.get(SECRETS, key))

    def spec(self, credential_secret: CredentialSecret) -> CredentialSpec | None:
        """Return what is kept in a Secret; None while the registration is not declared yet."""
        addon, registration = credential_secret.addon, credential_secret.registration
        name = self.drivers.name_for(registration)
        if complete_registration(addon, registration, self.drivers) != registration and not addon.deleting:
            return None  # the declaration is being written, and its event triggers the reconciler
        driver = self.agent_drivers[name]
        wanted = self.drivers.catalog.addons[name].wanted(addon, registration)
        return CredentialSpec(
            wanted, driver, self._secret_extras(credential_secret, driver), self.credential_index.labels(addon)
        )

    def _secret_extras(self, credential_secret: CredentialSecret, driver: AgentDriver) -> SecretExtras:
        frame = {CLUSTER_NAME: self.credential_index.cluster.encode()}
        others = frozenset[str]().union(*(other.owned_keys() for other in self.agent_drivers.values()))
        obsolete_keys = others - driver.owned_keys()
        if credential_secret.registration.type != KUBE_CLIENT:
            return SecretExtras(frame, obsolete_keys=obsolete_keys)
        return SecretExtras(frame, {KUBECONFIG: self.session.kubeconfigs.for_user(driver.user_entry())}, obsolete_keys)

    async def report_status(self, credential_secret: CredentialSecret, answer: ObtainResult) -> None:
        """Report the state of one credential on the hub and in an event on this cluster."""
        key = credential_secret.key
        secret = self.secrets.get(SECRETS, key)
        if isinstance(answer, Pending) and secret is not None:
            self.events.warning(secret, answer.reason, answer.message)
        self._count(credential_secret, answer)
        statuses = self.statuses.setdefault(credential_secret.addon.name, {})
        statuses[key] = _status_of(answer)
        conditions = self._conditions(credential_secret)
        if conditions:
            await self.status.write(
                MANAGED_CLUSTER_ADDONS, credential_secret.addon.object, StatusChange(conditions=conditions)
            )

    def _count(self, credential_secret: CredentialSecret, answer: ObtainResult) -> None:
        """Count a rotation or a refusal; names of add-ons are no labels, for there is no end of them."""
        kind = f"addon-{self.drivers.name_for(credential_secret.registration)}"
        if isinstance(answer, Pending):
            self.metrics.rotation_failed(kind, answer.reason)
            return
        before, now = self.validities.pop(credential_secret.key, None), self.clock.now()
        if answer.expires_at is None:
            return
        self.validities[credential_secret.key] = CredentialValidity(answer.issued_at, answer.expires_at)
        if isinstance(answer, NewCredential) and before is not None and before.expires is not None:
            left = (before.expires - now) / (answer.expires_at - answer.issued_at)
            self.metrics.rotated(kind, remaining_ratio=max(0.0, left))
        self.metrics.watch_expiry("addon", self.credential_index.cluster, self._remaining)

    def _remaining(self) -> RemainingLife:
        """Return the remaining validity of the add-on's credential that expires first."""
        return remaining_life(self.validities.values(), now=self.clock.now())

    def _conditions(self, credential_secret: CredentialSecret) -> tuple[Condition, ...]:
        """Return the condition about all credentials of one driver for the add-on."""
        name = self.drivers.name_for(credential_secret.registration)
        statuses = self.statuses[credential_secret.addon.name]
        alike = [
            other.key
            for other in self.credential_index.credential_secrets(credential_secret.addon)
            if self.drivers.name_for(other.registration) == name
        ]
        words = [statuses[key] for key in sorted(alike) if key in statuses]
        if len(words) < len(alike) and all(word.good for word in words):
            return ()
        return self.drivers.catalog.addons[name].credential.report(words)

    def forget(self, key: ObjectKey) -> None:
        """Drop what is remembered of a Secret that is gone."""
        self.validities.pop(key, None)
        for statuses in self.statuses.values():
            statuses.pop(key, None)


class AddonCredentialObserver(Struct, frozen=True):
    """Reports one credential of an add-on once it was obtained or refused; waiting is not reported."""

    credentials: AddonCredentials
    credential_secret: CredentialSecret

    async def on_answer(self, answer: ObtainResult, _data: SecretData) -> None:
        """Report the driver's result."""
        if not isinstance(answer, Pending) or answer.failed:
            await self.credentials.report_status(self.credential_secret, answer)


def _status_of(answer: ObtainResult) -> CredentialStatus:
    if isinstance(answer, Pending):
        return CredentialStatus(False, answer.reason, answer.message)
    return CredentialStatus(True, "", answer.message + format_issued(answer.credential_id))
