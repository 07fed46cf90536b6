"""Keeps the cluster's own credential for the hub alive in its Secret."""

from __future__ import annotations

from msgspec import Struct

from watchword.agent.credential import CredentialKeeper, CredentialSpec
from watchword.agent.credential_metrics import CredentialMetricsObserver
from watchword.agent.hub_session import HubSession
from watchword.agent.identity import AgentIdentity
from watchword.agent.secret_data import AGENT_NAME, CLUSTER_NAME, SecretExtras
from watchword.api.meta import ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.drivers.hub_connector import endpoint_data_of
from watchword.drivers.interface import (
    ENDPOINT_CONFIG,
    KUBECONFIG,
    AgentDriver,
    ObtainResult,
    SecretData,
    WantedCredential,
)
from watchword.runtime.reconcile import Done, Outcome, Reader


class HubCredentialReconciler(Struct, frozen=True, kw_only=True):
    """Reconciles the Secret of the cluster's credential; triggered by it, the hub's decisions and the session."""

    identity: AgentIdentity
    driver: AgentDriver
    keeper: CredentialKeeper
    session: HubSession
    hub: Reader
    metrics: CredentialMetricsObserver

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Obtain, renew or restore the credential, as far as that is possible now."""
        if key != self.identity.secret_key:
            return Done()
        data: dict[str, bytes] = {
            KUBECONFIG: self.session.kubeconfigs.for_user(self.driver.user_entry()),
            CLUSTER_NAME: self.identity.cluster.encode(),
            AGENT_NAME: self.identity.agent.encode(),
        }
        endpoint = endpoint_data_of(self.session.connector)
        extras = SecretExtras(data, endpoint, frozenset({ENDPOINT_CONFIG} - endpoint.keys()))
        return await self.keeper.advance(key, CredentialSpec(self.wanted(), self.driver, extras), self)

    async def on_answer(self, answer: ObtainResult, data: SecretData) -> None:
        """Count the driver's result and let the session use the content of the Secret."""
        await self.metrics.on_answer(answer, data)
        await self.session.update_credential(answer, data)

    def wanted(self) -> WantedCredential:
        """Return the credential that this cluster needs."""
        found = self.hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.identity.cluster))
        asked = annotations_of(found or {}).get(Annotation.ROTATION_REQUEST, "")
        return WantedCredential(
            self.identity.cluster,
            self.identity.subject,
            requester=self.session.requester,
            rotation=asked,
        )
