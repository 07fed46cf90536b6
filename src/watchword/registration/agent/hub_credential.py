"""Keeps the cluster's own credential for the hub alive in its Secret."""

from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct

from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.credentials.credential_secret import (
    AGENT_NAME,
    CLUSTER_NAME,
    CredentialKeeper,
    CredentialSpec,
    SecretExtras,
)
from watchword.credentials.driver import (
    ENDPOINT_CONFIG,
    KUBECONFIG,
    AgentDriver,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
)
from watchword.registration.agent.hub_session import HubSession
from watchword.registration.agent.options import AgentIdentity
from watchword.registration.driver import endpoint_data_of
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life
from watchword.runtime.reconcile import Done, Outcome, Reader

KIND = "cluster"


@dataclass
class CredentialMetricsObserver:
    """A `CredentialObserver` that counts each result."""

    metrics: CredentialMetrics
    cluster: str
    clock: Clock
    began: datetime = field(init=False)
    held: ValidCredential | NewCredential | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.began = self.clock.now()

    async def on_answer(self, answer: ObtainResult, _data: SecretData) -> None:
        if isinstance(answer, Pending):
            self._count_refusal(answer)
        else:
            self._count_held(answer)

    def _count_refusal(self, answer: Pending) -> None:
        if answer.failed and answer.message != self.refused:  # the same refusal is seen at every look
            self.metrics.rotation_failed(KIND, answer.reason)
        self.refused = answer.message if answer.failed else self.refused

    def _count_held(self, answer: ValidCredential | NewCredential) -> None:
        now, before = self.clock.now(), self.held
        if isinstance(answer, NewCredential) and before is None:
            self.metrics.joined_after((now - self.began).total_seconds())
        elif isinstance(answer, NewCredential) and before is not None:
            self.metrics.rotated(KIND, remaining_ratio=remaining_validity_ratio(before, now))
        self.held, self.refused = answer, ""
        if answer.expires_at is not None:
            self.metrics.watch_expiry(KIND, self.cluster, self._remaining)
        else:
            self.metrics.forget(KIND, self.cluster)

    def _remaining(self) -> RemainingLife:
        held = self.held
        validity = CredentialValidity() if held is None else CredentialValidity(held.issued_at, held.expires_at)
        return remaining_life([validity], now=self.clock.now())


def remaining_validity_ratio(held: ValidCredential | NewCredential, now: datetime) -> float:
    """Return which part of a validity is left; all of it where it does not expire."""
    if held.expires_at is None:
        return 1.0
    if held.issued_at is None or held.expires_at <= held.issued_at:
        return 0.0
    return min(max((held.expires_at - now) / (held.expires_at - held.issued_at), 0.0), 1.0)


class HubCredentialReconciler(Struct, frozen=True, kw_only=True):
    """Reconciles the Secret of the cluster's credential; triggered by it, the hub's decisions and the session."""

    identity: AgentIdentity
    driver: AgentDriver
    keeper: CredentialKeeper
    session: HubSession
    hub: Reader
    metrics: CredentialMetricsObserver
    obsolete_keys: frozenset[str] = frozenset()  # of the Secret: those of drivers that served before

    async def reconcile(self, key: ObjectKey) -> Outcome:
        if key != self.identity.secret_key:
            return Done()
        data: dict[str, bytes] = {
            KUBECONFIG: self.session.kubeconfigs.for_user(self.driver.user_entry()),
            CLUSTER_NAME: self.identity.cluster.encode(),
            AGENT_NAME: self.identity.agent.encode(),
        }
        endpoint = endpoint_data_of(self.session.connector)
        extras = SecretExtras(data, endpoint, self.obsolete_keys | {ENDPOINT_CONFIG} - endpoint.keys())
        return await self.keeper.advance(key, CredentialSpec(self.wanted(), self.driver, extras), self)

    async def on_answer(self, answer: ObtainResult, data: SecretData) -> None:
        await self.metrics.on_answer(answer, data)
        await self.session.update_credential(answer, data)

    def wanted(self) -> WantedCredential:
        found = self.hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.identity.cluster))
        asked = annotations_of(found or {}).get(Annotation.ROTATION_REQUEST, "")
        return WantedCredential(
            self.identity.cluster,
            self.identity.subject,
            requester=self.session.requester,
            refused_id=self.session.refused_id,
            # The hub decides about one key of a joining cluster, not about a second one.
            rotation=asked if self.session.uses_own_credential else "",
        )
