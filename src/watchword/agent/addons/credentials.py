"""Says what is kept in each add-on's Secret, and tells the hub how it fares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchword.agent.addons.book import AddonBook, Holding
from watchword.agent.addons.declaration import declare
from watchword.agent.addons.kinds import KINDS, Said, driver_of
from watchword.agent.credential import Keeping
from watchword.agent.options import AgentOptions
from watchword.agent.secret_data import CLUSTER_NAME, KUBECONFIG, Beside, HubKubeconfigs
from watchword.api.addon import KUBE_CLIENT
from watchword.api.conditions import Condition
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, SECRETS
from watchword.drivers.interface import AgentDriver, Answer, Issued, Pending, SecretData
from watchword.runtime.clock import Clock
from watchword.runtime.events import EventRecorder
from watchword.runtime.metrics import CredentialMetrics
from watchword.runtime.reconcile import Reader
from watchword.runtime.status import StatusChange, StatusWriter


@dataclass(frozen=True)
class AddonCredentials:
    """One driver instance for each registration; what the last answers were is remembered for the condition."""

    book: AddonBook
    secrets: Reader  # of this cluster
    status: StatusWriter  # of the hub
    events: EventRecorder  # of this cluster: where people look when the hub cannot be reached
    drivers: Mapping[str, AgentDriver]
    options: AgentOptions
    kubeconfigs: HubKubeconfigs
    metrics: CredentialMetrics
    clock: Clock
    is_itself: Callable[[], bool]  # whether the hub is asked in the name of this cluster
    said: dict[str, dict[ObjectKey, Said]] = field(default_factory=dict)  # add-on → Secret → last word
    until: dict[ObjectKey, datetime] = field(default_factory=dict)  # Secret → when its credential ends

    def holding(self, key: ObjectKey) -> Holding | None:
        """Return whose credential lies in a Secret, None when it is nobody's any more."""
        return self.book.find(key, self.secrets.get(SECRETS, key))

    def find(self, key: ObjectKey) -> Keeping | None:
        """Return what is kept in a Secret; None when nothing is, or while the registration is not declared yet."""
        holding = self.holding(key)
        if holding is None:
            return None
        addon, registration = holding.addon, holding.registration
        name = driver_of(registration, self.options.addon_auth)
        if declare(addon, registration, addon_auth=self.options.addon_auth) != registration and not addon.deleting:
            return None  # the declaration is on its way, and its event wakes us
        driver = self.drivers[name]
        wanted = KINDS[name].wanted(addon, registration, self.options)
        return Keeping(wanted, driver, self._beside(holding, driver), self.book.labels(addon))

    def _beside(self, holding: Holding, driver: AgentDriver) -> Beside:
        frame = {CLUSTER_NAME: self.book.cluster.encode()}
        others = frozenset[str]().union(*(other.owned_keys() for other in self.drivers.values()))
        retired = others - driver.owned_keys()
        if holding.registration.type != KUBE_CLIENT:
            return Beside(frame, retired=retired)
        return Beside(frame, {KUBECONFIG: self.kubeconfigs.for_user(driver.user_entry())}, retired)

    async def report(self, key: ObjectKey, answer: Answer, _data: SecretData) -> None:
        """Write the condition once every credential of the add-on has been looked at, or one has failed."""
        holding = self.holding(key)
        if holding is not None and not (isinstance(answer, Pending) and not answer.failed):
            await self.report_about(holding, answer)

    async def report_about(self, holding: Holding, answer: Answer) -> None:
        """Tell the hub, and whoever looks at the Secret here, how one credential fares."""
        key = holding.key
        secret = self.secrets.get(SECRETS, key)
        if isinstance(answer, Pending) and secret is not None:
            self.events.warning(secret, answer.reason, answer.message)
        self._count(holding, answer)
        said = self.said.setdefault(holding.addon.name, {})
        good = not isinstance(answer, Pending)
        said[key] = Said(good, "" if good else _reason(answer), answer.message)
        conditions = self._conditions(holding)
        if conditions:
            await self.status.write(MANAGED_CLUSTER_ADDONS, holding.addon.object, StatusChange(conditions=conditions))

    def _count(self, holding: Holding, answer: Answer) -> None:
        """Count a rotation or a refusal; names of add-ons are no labels, for there is no end of them."""
        kind = f"addon-{driver_of(holding.registration, self.options.addon_auth)}"
        if isinstance(answer, Pending):
            self.metrics.rotation_failed(kind, answer.reason)
            return
        before, now = self.until.get(holding.key), self.clock.now()
        self.until[holding.key] = answer.expires_at
        if isinstance(answer, Issued) and before is not None:
            left = (before - now) / (answer.expires_at - answer.issued_at)
            self.metrics.rotated(kind, remaining_ratio=max(0.0, left))
        self.metrics.watch_expiry("addon", self.book.cluster, self._seconds_left)

    def _seconds_left(self) -> float:
        """Return how long the add-on's credential that ends first still lives."""
        return (min(self.until.values(), default=self.clock.now()) - self.clock.now()).total_seconds()

    def _conditions(self, holding: Holding) -> tuple[Condition, ...]:
        """Return what to say of all credentials that the same driver keeps for the add-on."""
        name = driver_of(holding.registration, self.options.addon_auth)
        said = self.said[holding.addon.name]
        alike = [
            other.key
            for other in self.book.holdings(holding.addon)
            if driver_of(other.registration, self.options.addon_auth) == name
        ]
        words = [said[key] for key in sorted(alike) if key in said]
        if len(words) < len(alike) and all(word.good for word in words):
            return ()
        return KINDS[name].conditions(words)

    def forget(self, key: ObjectKey) -> None:
        """Drop what is remembered of a Secret that is gone."""
        self.until.pop(key, None)
        for said in self.said.values():
            said.pop(key, None)


def _reason(answer: Answer) -> str:
    return answer.reason if isinstance(answer, Pending) else ""
