"""Tries what must not work: credentials that were withdrawn, and good ones in the name of another cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from datetime import timedelta

from msgspec import Struct
from tests.simulation.cluster import SimulatedCluster, as_certificate
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.held_credentials import ADDON
from tests.simulation.planes import replayable_client
from tests.simulation.settings import HOUR
from tests.simulation.violations import Violations

from watchword.addons.token.agent import TOKEN
from watchword.api.conditions import find_condition
from watchword.api.meta import ObjectKey
from watchword.api.names import ADDON_NAMESPACE, CLUSTER_LEASE, DENIED_REASON, ConditionType, addon_service_account
from watchword.api.resources import (
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.credentials.credential_secret import decode_data
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, MethodNotAllowed, ServerError, Unauthorized, Unreachable
from watchword.kube.tokens import request_token
from watchword.pki.authority import Authority

DENIED_WITHIN = 3 * HOUR
"""From a denial in peace until the cluster reaches nothing, and no token of its add-on is accepted."""

REFUSED = (Forbidden, Unauthorized, MethodNotAllowed, Unreachable, ServerError)  # a server that is down says nothing


class AccessProber(Struct, frozen=True):
    """Shows credentials to the hub that are not good for what they are used; whatever is not refused is a violation."""

    fleet: SimulatedFleet
    violations: Violations

    def token_of(self, member: SimulatedCluster) -> str:
        """Return the token of the cluster's add-on, empty when it has none."""
        secret = member.stored.get(SECRETS, ObjectKey(ADDON_NAMESPACE, f"{ADDON}-hub-kubeconfig"))
        return decode_data(secret).get(TOKEN, b"").decode()

    def is_turn_of(self, member: SimulatedCluster) -> bool:
        """Whether a cluster's certificates are shown in this round: in every other one, for each costs a signature."""
        rounds = self.fleet.elapsed // self.fleet.settings.check_every
        return (rounds + list(self.fleet.members).index(member.name)) % 2 == 0

    async def is_certificate_refused(self, chain: bytes, group: str) -> bool:
        """Whether the hub does not take a certificate for that of a group's member; one that is down says nothing."""
        try:
            holder = await who_am_i(replayable_client(as_certificate(self.fleet.hub, chain)))
        except Unauthorized:
            return True
        except KubeError:
            return False
        return group not in holder.groups

    async def expect_denied_refused(self, member: SimulatedCluster) -> None:
        """A denied cluster reaches nothing of it: once the hub says so, and after hours of peace whatever it says."""
        if not self._is_denial_due(member.name) or (client := member.as_itself()) is None:
            return
        for what, attempt in requests_about(client, member.name):
            await self.expect_refused(attempt, f"a denied cluster, {member.name}, to {what}")
        await client.close()

    def _is_denial_due(self, name: str) -> bool:
        cluster = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        said = find_condition(cluster or {}, ConditionType.HUB_ACCEPTED)
        if said is not None and said.reason == DENIED_REASON:
            return True
        if cluster is None or (cluster.get("spec") or {}).get("hubAcceptsClient"):
            return False  # its agent introduced it anew
        return self.fleet.standing[name].is_denied_in_peace(since=self.fleet.elapsed - DENIED_WITHIN)

    async def expect_deleted_refused(self, member: SimulatedCluster) -> None:
        """Once a cluster is gone from the hub, its credential opens no door."""
        if self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name)) is None:
            await self._expect_refusal(member, "a deleted cluster")

    async def expect_distrusted_ca_refused(self, member: SimulatedCluster, authority: Authority) -> None:
        """An authority that the hub no longer trusts authenticates no client, however fresh its signature."""
        held = member.certificate()
        if held is None:
            return
        forged = authority.issue_client(held.key, held.subject, now=self.fleet.now, lifetime=timedelta(days=1))
        client = replayable_client(as_certificate(self.fleet.hub, forged.pem))
        renewal = client.patch(LEASES, ObjectKey(member.name, CLUSTER_LEASE), {"spec": {"holderIdentity": "probe"}})
        await self.expect_refused(renewal, f"{member.name}, by an authority distrusted, to renew its lease")

    async def expect_isolated(self, member: SimulatedCluster, neighbour: str) -> None:
        """With its own credential a cluster neither sees nor changes anything of another."""
        client = member.as_itself(acting_for=neighbour)
        if client is None:
            return
        for what, attempt in requests_about(client, neighbour):
            await self.expect_refused(attempt, f"{member.name} to {what} of {neighbour}")
        await client.close()

    async def expect_refused(self, attempt: Awaitable[object], what: str) -> None:
        """An attempt of a cluster that reaches the hub is not allowed."""
        try:
            await attempt
        except REFUSED:
            return
        except KubeError as answer:
            self.violations.add(f"the hub did not refuse {what}, but answered: {answer}")
        else:
            self.violations.add(f"the hub allowed {what}")

    async def expect_token_refused(self, name: str, token: str, why: str) -> None:
        """A withdrawn token of a cluster's add-on authenticates no client."""
        client = replayable_client(self.fleet.hub.transport().with_identity(authorization=Sensitive(f"Bearer {token}")))
        try:
            await client.get(SERVICE_ACCOUNTS, ObjectKey(name, "default"))
        except (Unauthorized, Unreachable, ServerError):
            return
        except KubeError as answer:
            self.violations.add(f"the token of {name}, which {why}, was answered: {answer}", name)
        else:
            self.violations.add(f"the token of {name}, which {why}, still works", name)

    async def _expect_refusal(self, member: SimulatedCluster, who: str) -> None:
        client = member.as_itself()
        if client is None:
            return
        lease = ObjectKey(member.name, CLUSTER_LEASE)
        try:
            await client.patch(LEASES, lease, {"spec": {"holderIdentity": "probe"}})
        except REFUSED:
            return
        except KubeError as answer:
            self.violations.add(f"{who}, {member.name}, was answered: {answer}", member.name)
        else:
            self.violations.add(f"{who}, {member.name}, could still write its lease", member.name)
        finally:
            await client.close()


def requests_about(client: Client, cluster: str) -> Iterator[tuple[str, Awaitable[object]]]:
    """Yield attempts to reach what belongs to a cluster, one after the other."""
    lease, own = ObjectKey(cluster, CLUSTER_LEASE), ObjectKey.cluster(cluster)
    account = ObjectKey(cluster, addon_service_account(cluster, ADDON))
    yield "list the Secrets", client.list(SECRETS, namespace=cluster)
    yield "list the works", client.list(MANIFEST_WORKS, namespace=cluster)
    yield "list the add-ons", client.list(MANAGED_CLUSTER_ADDONS, namespace=cluster)
    yield "renew the lease", client.patch(LEASES, lease, {"spec": {"holderIdentity": "probe"}})
    yield "write the status", client.patch(MANAGED_CLUSTERS, own, {"status": {"version": {}}}, subresource="status")
    yield "accept the membership", client.patch(MANAGED_CLUSTERS, own, {"spec": {"hubAcceptsClient": True}})
    yield "obtain a token", request_token(client, account, expiration_seconds=3600)
