"""The cluster's side: waits for acceptance, and writes a kubeconfig that assumes the cluster's role on the hub."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from watchword.api.conditions import is_true
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.kubeconfig import UserEntry
from watchword.registration.aws_irsa.exec_entry import TokenSource
from watchword.registration.aws_irsa.options import ClusterPair
from watchword.registration.interface import (
    AgentContext,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
)
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader

RECHECK_INTERVAL = timedelta(minutes=5)  # acceptance itself triggers the reconciler


class AwsIrsaAgentDriver(Struct, frozen=True):
    """Makes no request and stores no token: the proof is the IAM role of the agent's pods."""

    reader: Reader
    clock: Clock
    pair: ClusterPair

    @classmethod
    def make(cls, context: AgentContext) -> AwsIrsaAgentDriver:
        """Return the driver, ready to use; `InvalidName` when its settings are incomplete."""
        return cls(context.reader, context.clock, ClusterPair.read(context.settings))

    def user_entry(self) -> UserEntry:
        """Return the user of the kubeconfig: an exec entry, which obtains a new token when one expires."""
        return UserEntry(plugin=TokenSource.of(self.pair).exec_entry())

    def owned_keys(self) -> frozenset[str]:
        """Return no keys: the kubeconfig is the whole credential."""
        return frozenset()

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:  # noqa: ARG002 - the protocol's shape
        """Return that the kubeconfig held is good when it has exactly the entry of this cluster and hub."""
        is_own = TokenSource.read(held) == TokenSource.of(self.pair)
        return ValidCredential(None, None, self._message()) if is_own else None

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        """Return the credential once the hub has accepted the cluster."""
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(wanted.cluster))
        valid = self.assess(wanted, held)
        if found is None and valid is not None:
            return valid  # the hub has not answered since the agent started
        if found is None or not is_true(found, ConditionType.HUB_ACCEPTED):
            message = "waiting for the hub's administrator to accept the cluster, and for its role on the hub"
            return Pending("AwaitingHubApproval", message, recheck=RECHECK_INTERVAL)
        return valid or NewCredential({}, self.clock.now(), None, None, self._message())

    def _message(self) -> str:
        return f"kubeconfig that assumes role {self.pair.hub_role} {format_validity(CredentialValidity())}"
