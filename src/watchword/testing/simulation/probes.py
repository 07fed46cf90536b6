"""Tries what must not work: credentials that were withdrawn, shown to the hub again."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.agent.secret_data import decode_data
from watchword.api.conditions import find_condition
from watchword.api.meta import ObjectKey
from watchword.api.names import ADDON_NAMESPACE, CLUSTER_LEASE, ConditionType
from watchword.api.resources import LEASES, MANAGED_CLUSTERS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.drivers.token.judge import TOKEN
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, Unauthorized, Unreachable
from watchword.testing.simulation.findings import Findings
from watchword.testing.simulation.holdings import ADDON
from watchword.testing.simulation.member import Member, as_certificate
from watchword.testing.simulation.world import World


@dataclass(frozen=True)
class Prober:
    """Shows withdrawn credentials to the hub; whatever is not refused is a finding."""

    world: World
    findings: Findings

    def token_of(self, member: Member) -> str:
        """Return the token of the cluster's add-on, empty when it has none."""
        secret = member.shelf.get(SECRETS, ObjectKey(ADDON_NAMESPACE, f"{ADDON}-hub-kubeconfig"))
        return decode_data(secret).get(TOKEN, b"").decode()

    async def expect_denied(self, member: Member) -> None:
        """Once the hub says that a cluster is denied, its credential changes nothing any more."""
        cluster = self.world.shelf.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
        said = find_condition(cluster or {}, ConditionType.HUB_ACCEPTED)
        if said is not None and said.status == "False":
            await self._expect_refusal(member, "a denied cluster")

    async def expect_stranger(self, member: Member) -> None:
        """Once a cluster is gone from the hub, its credential opens no door."""
        if self.world.shelf.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name)) is None:
            await self._expect_refusal(member, "a deleted cluster")

    async def expect_token_refused(self, name: str, token: str) -> None:
        """The token of a ServiceAccount that is no more names nobody."""
        client = Client(self.world.hub.transport().as_another(authorization=Sensitive(f"Bearer {token}")))
        try:
            await client.get(SERVICE_ACCOUNTS, ObjectKey(name, "default"))
        except (Unauthorized, Unreachable):
            return
        except KubeError as answer:
            self.findings.add(f"the token of a ServiceAccount of {name} that was deleted was answered: {answer}", name)
        else:
            self.findings.add(f"the token of a ServiceAccount of {name} that was deleted still works", name)

    async def _expect_refusal(self, member: Member, who: str) -> None:
        if member.certificate() is None:
            return
        client = Client(as_certificate(self.world.hub, member.held()["tls.crt"]))
        lease = ObjectKey(member.name, CLUSTER_LEASE)
        try:
            await client.patch(LEASES, lease, {"spec": {"holderIdentity": "probe"}})
        except (Forbidden, Unauthorized, Unreachable):
            return
        except KubeError as answer:
            self.findings.add(f"{who}, {member.name}, was answered: {answer}", member.name)
        else:
            self.findings.add(f"{who}, {member.name}, could still write its lease", member.name)
