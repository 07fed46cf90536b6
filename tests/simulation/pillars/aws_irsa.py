"""Clusters that register by IAM: their roles in the hub's account, and what happens to that account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.emulators.memory_aws import MemoryRole
from tests.simulation.administrator import note_deed, quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.eks import SimulatedAws
from tests.simulation.incidents import Incident, incident
from tests.simulation.pillar import Pillar
from tests.simulation.settings import DAY, HOUR, MINUTE

from watchword.api.conditions import is_true
from watchword.api.meta import ObjectKey, Resource, annotations_of, uid_of
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import KubeError, Unauthorized
from watchword.registration.aws_irsa.identity import ClusterIdentity, record_key
from watchword.registration.aws_irsa.options import MANAGED_ARN, OCM_MANAGED_ARN, READY

WRITES = ("create_role", "put_role_policy", "update_assume_role_policy", "create_access_entry", "tag_role")


@dataclass
class AwsIrsa(Pillar):
    """Every other cluster registers by its role, all of them where there is one."""

    name = "aws-irsa"

    @property
    def aws(self) -> SimulatedAws:
        """The hub's account."""
        if self.fleet.aws is None:
            raise LookupError("this life has no account")
        return self.fleet.aws

    def _identity(self, member: SimulatedCluster) -> ClusterIdentity | None:
        cluster, pair = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name)), member.eks_pair
        if cluster is None or pair is None:
            return None
        return ClusterIdentity(member.name, uid_of(cluster), pair.hub, pair.managed)

    def _is_in_aws(self, identity: ClusterIdentity) -> bool:
        """Whether the account has the role and the access entry of a cluster, and both are right."""
        role, wanted, entry = self.aws.roles.get(identity.role.name), identity.role, self.aws.entries
        if role is None or role.policies != {wanted.name: wanted.access} or role.trust != wanted.trust:
            return False
        return entry.get(wanted.arn, {}).get("username") == identity.user

    async def step(self) -> None:
        """Use the identities that are reported ready, and compare the account with what the hub wants."""
        for member in self.settled_members:
            identity, name = self._identity(member), member.name
            cluster = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)) or {}
            accepted = identity is not None and self.admin.is_accepted(name)
            wrong = accepted and identity is not None and not self._is_in_aws(identity)
            self.expect("its identity in AWS is not as the hub wants it", broken=wrong, cluster=name)
            refused = accepted and is_true(cluster, READY) and await self._is_refused(member)
            self.expect("its identity is reported ready and refused", broken=refused, cluster=name)

    async def _is_refused(self, member: SimulatedCluster) -> bool:
        client = member.as_itself()
        try:
            await who_am_i(client or self.admin.client)
        except Unauthorized:
            return True
        except KubeError:  # no token, or the hub is down
            return False
        return False

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """The account has one role and one access entry for each cluster, and no other."""
        wanted = {identity.role.name: identity for member in self.members if (identity := self._identity(member))}
        for name, identity in wanted.items():
            if not self._is_in_aws(identity):
                yield f"{identity.cluster}: role {name} is not as the hub wants it", identity.cluster
        for name in sorted(set(self.aws.roles) - set(wanted)):
            yield f"role {name} is left over in AWS", ""
        for arn in sorted(set(self.aws.entries) - {identity.role.arn for identity in wanted.values()}):
            yield f"the access entry of {arn} is left over in AWS", ""

    def expected_objects(self) -> Mapping[Resource, Iterable[ObjectKey]]:
        """Return the record of each role."""
        return {LEASES: [record_key(found) for member in self.members if (found := self._identity(member))]}

    def _role(self, incident: Incident) -> MemoryRole | None:
        identity = self._identity(self.fleet.members[incident.target])
        found = None if identity is None else self.aws.roles.get(identity.role.name)
        note_deed(done=found is not None)
        return found

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, at_hub=True)
    async def aws_throttles(self, _: Incident) -> AsyncIterator[None]:
        """IAM answers one request in a second, and refuses the others."""
        self.aws.limit = 1.0
        yield
        self.aws.limit = 0.0

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def aws_unreachable(self, _: Incident) -> AsyncIterator[None]:
        """IAM and EKS do not answer."""
        self.aws.reachable = False
        yield
        self.aws.reachable = True

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def aws_forbidden(self, _: Incident) -> AsyncIterator[None]:
        """The hub's role loses its right to change anything, and gets it back."""
        self.aws.denied = frozenset(WRITES)
        yield
        self.aws.denied = frozenset()

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True)
    async def sts_unreachable(self, _: Incident) -> AsyncIterator[None]:
        """Tokens expire, and STS issues no other ones."""
        self.aws.sts_outages += 1
        yield
        self.aws.sts_outages -= 1

    @incident(3, HOUR)
    async def role_deleted(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster's role is deleted, perhaps with its access entry."""
        role = self._role(incident)
        if role is not None:
            self.aws.roles.pop(role.arn.rpartition("/")[2])
            if incident.amount < 0.5:
                self.aws.entries.pop(role.arn, None)
        yield

    @incident(3, HOUR)
    async def role_changed(self, incident: Incident) -> AsyncIterator[None]:
        """Trust, access policy or access entry of the cluster's role are changed."""
        role = self._role(incident)
        if role is not None:
            part = incident.choose(("trust", "policies", "entry", "groups", "tags"))
            if part == "trust":
                role.trust = {"Version": "2012-10-17", "Statement": [{"Principal": "*"}]}
            elif part == "policies":
                role.policies.clear()
            elif part == "tags":
                role.tags.popitem()
            elif part == "entry" or role.arn not in self.aws.entries:
                self.aws.entries.pop(role.arn, None)
            else:
                self.aws.entries[role.arn] |= {"kubernetesGroups": ["others"], "username": "somebody"}
        yield

    @incident(1, MINUTE, DAY)
    async def claim_changed(self, incident: Incident) -> AsyncIterator[None]:
        """The annotations by which the cluster names itself are removed at the hub.

        Its agent corrects them unless the cluster is denied meanwhile; then a person does what the finding says.
        """
        key, names = ObjectKey.cluster(incident.target), (MANAGED_ARN, OCM_MANAGED_ARN)
        known = annotations_of(self.fleet.stored.get(MANAGED_CLUSTERS, key) or {})
        await self._annotate(key, dict.fromkeys(names))
        yield
        await self._annotate(key, {name: known[name] for name in names if name in known})

    async def _annotate(self, key: ObjectKey, annotations: Mapping[str, str | None]) -> None:
        await quietly(self.admin.client.patch(MANAGED_CLUSTERS, key, {"metadata": {"annotations": annotations}}))
