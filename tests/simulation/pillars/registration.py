"""Clusters that join by certificate: their credentials, and what people do to them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.simulation.administrator import note_deed, quietly
from tests.simulation.cluster import SECRET, SimulatedCluster
from tests.simulation.fleet import Intent
from tests.simulation.held_credentials import HeldCredential, cluster_credential, read_endpoint, secrets_in
from tests.simulation.hostile import HostileCluster, undo_hostile_writes
from tests.simulation.incidents import Incident, incident
from tests.simulation.pillar import Pillar
from tests.simulation.settings import DAY, HOUR, MINUTE

from watchword.api.cluster import is_accepted
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource, labels_of, uid_of
from watchword.api.names import (
    CLUSTER_LEASE,
    Annotation,
    ConditionType,
    Label,
    addon_group,
    cluster_group,
    cluster_role,
    registration_binding,
    work_binding,
)
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.certificates.agent import CERTIFICATE
from watchword.pki.certificates import parse_certificate
from watchword.pki.csr import parse_csr
from watchword.pki.errors import PkiError

MEMBERSHIP = (ConditionType.HUB_ACCEPTED, ConditionType.JOINED, ConditionType.AVAILABLE)
UNDECIDED_FOR = 6 * HOUR
"""In peace: longer than this no request of a cluster that is well waits for a decision."""


@dataclass
class Registration(Pillar):
    """Every cluster takes part."""

    name = "registration"
    renewal_writes = (
        r"/secrets/hub-kubeconfig-secret 200$",
        r"/certificatesigningrequests(/[^/]+/approval)? 20[01]$",
        r"/managedclusters/[^/]+/status 200$",
    )
    routine_writes = (r"/leases/(managed-cluster-lease|watchword-hub-lock) 200$",)
    _judged: dict[str, str] = field(default_factory=dict)  # the UID of a request → the version that was looked at

    async def start(self) -> None:
        """Create every other cluster beforehand; the rest introduce themselves."""
        for number, name in enumerate(self.fleet.members):
            if number % 2 == 0:
                await self.admin.create_cluster(name)

    async def round(self) -> None:
        """Agree on leases, lend a helping hand, and show the certificates to the hub."""
        for member in self.settled_members:
            if self.prober.is_turn_of(member):
                refused = await self._is_certificate_refused(member)
                what = "the hub refuses its certificate, which is reported good"
                self.expect(what, broken=refused, cluster=member.name)
            await self.admin.agree_on_lease(member.name)
            if self.admin.is_stranded(member.name):
                await self.admin.rejoin(member.name)

    async def _is_certificate_refused(self, member: SimulatedCluster) -> bool:
        """Whether the hub refuses a certificate that it knows of; drivers of other credentials look at their own."""
        held, cluster = cluster_credential(member), self._cluster(member)
        if cluster is None or held is None or held.expires_at <= self.fleet.now or member.profile.driver != "csr":
            return False
        is_reported = is_accepted(cluster) and is_true(cluster, ConditionType.CERTIFICATE_ROTATED)
        return is_reported and await self.prober.is_certificate_refused(
            member.held()[CERTIFICATE], cluster_group(member.name)
        )

    async def step(self) -> None:
        """Compare address and authority in each kubeconfig with the hub's; let denied clusters try what they could."""
        for member in self.members:
            if self.fleet.standing[member.name].intent is Intent.DENIED:
                await self.prober.expect_denied_refused(member)
        for member in self.settled_members:
            own = cluster_credential(member)
            is_due = own is not None and own.expires_at > self.fleet.now
            elsewhere = is_due and read_endpoint(member.held()).server != self.fleet.hub.server
            self.expect("its kubeconfig does not name where the hub is", broken=elsewhere, cluster=member.name)
            stranger = is_due and self.fleet.hub.authority.certificate.pem not in read_endpoint(member.held()).ca_data
            self.expect("its kubeconfig lacks the hub's authority", broken=stranger, cluster=member.name)

    def held(self) -> Iterator[HeldCredential]:
        """Yield the certificates of the clusters."""
        for member in self.members:
            if (found := cluster_credential(member)) is not None:
                yield found

    def secret_values(self) -> Iterator[tuple[str, bytes]]:
        """Yield their keys."""
        for member in self.members:
            yield from ((f"{what} of {member.name}", value) for what, value in secrets_in(member.held()))

    def objections(self) -> Iterator[tuple[str, str]]:
        """Each issued certificate names the cluster that asked; a cluster that is well has no undecided request."""
        for csr in self.fleet.stored.list(CERTIFICATE_SIGNING_REQUESTS):
            if self._judged.get(uid_of(csr)) == csr["metadata"]["resourceVersion"]:
                continue
            if (waiting := self._find_undecided(csr)) is not None:
                yield f"request {csr['metadata']['name']} of {waiting} waits undecided", waiting
            if is_undecided(csr):
                continue
            self._judged[uid_of(csr)] = csr["metadata"]["resourceVersion"]
            for objection in (*validate_issued(csr), *validate_requester(csr)):
                yield objection, csr["metadata"]["name"]

    def _find_undecided(self, csr: Object) -> str | None:
        """Return the cluster of a request that stays undecided although the cluster is well, and its add-on enabled."""
        name, addon = self._find_late(csr) if is_undecided(csr) else None, labels_of(csr).get(Label.ADDON_NAME)
        if name is None or (addon is not None and not self._was_enabled(ObjectKey(name, addon))):
            return None
        held = cluster_credential(self.fleet.members[name])
        return name if held is not None and held.expires_at > self.fleet.now else None

    def _was_enabled(self, addon: ObjectKey) -> bool:
        found = self.fleet.stored.get(MANAGED_CLUSTER_ADDONS, addon)
        created = None if found is None else parse_rfc3339(found["metadata"]["creationTimestamp"])
        return created is not None and created < self.fleet.now - UNDECIDED_FOR

    def _find_late(self, csr: Object) -> str | None:
        """Return the member that made a request in peace, long ago."""
        name = labels_of(csr).get(Label.CLUSTER_NAME, "")
        standing, created = self.fleet.standing.get(name), parse_rfc3339(csr["metadata"]["creationTimestamp"])
        if standing is None or created is None or standing.intent is not Intent.MEMBER:
            return None
        asked, since = created - self.fleet.clock.epoch, self.fleet.elapsed - UNDECIDED_FOR
        is_late = standing.member_since < asked < since and standing.is_calm(since=since)
        return name if is_late and not asks_for_another(csr) else None

    def waiting(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield accepted clusters that are not well, have no good credential, or wait for a decision."""
        for member in self.settled_members:
            cluster, held = self._cluster(member), cluster_credential(member)
            if cluster is None or not is_accepted(cluster):
                continue
            for type_ in MEMBERSHIP:
                if not is_true(cluster, type_):
                    yield f"{type_} is not true", member.name, ("Cluster",)
            if held is not None and held.expires_at <= self.fleet.now:
                yield "its credential has expired", member.name, ("Cluster", "Credential")
        for csr in self.fleet.stored.list(CERTIFICATE_SIGNING_REQUESTS):
            if is_undecided(csr) and (name := self._find_late(csr)) is not None:
                yield "a request waits undecided", name, ("Cluster", "AddOn", "Credential", "Signer")

    def _cluster(self, member: SimulatedCluster) -> Object | None:
        return self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Every cluster is accepted, joined and available, and has a credential."""
        for member in self.members:
            yield from ((f"{member.name}: {wrong}", member.name) for wrong in self._check_member(member))

    def _check_member(self, member: SimulatedCluster) -> Iterable[str]:
        cluster = self._cluster(member)
        if cluster is None:
            yield "the hub does not know it"
            return
        for type_ in MEMBERSHIP:
            if not is_true(cluster, type_):
                said = find_condition(cluster, type_)
                yield f"{type_} is not true: {said.reason + ', ' + said.message if said else 'never said'}"
        held = cluster_credential(member)
        if held is None or held.expires_at <= self.fleet.now:
            yield "it has no credential of its own"
        if find_condition(cluster, ConditionType.DELETING) is not None:
            yield "it says that it is being deleted"

    def expected_objects(self) -> Mapping[Resource, Iterable[ObjectKey]]:
        """Return one namespace, role, binding and lease for each cluster."""
        names = [member.name for member in self.members]
        roles = [ObjectKey.cluster(cluster_role(name)) for name in names]
        return {
            NAMESPACES: [ObjectKey.cluster(name) for name in names],
            CLUSTER_ROLES: roles,
            CLUSTER_ROLE_BINDINGS: roles,
            ROLE_BINDINGS: [ObjectKey(name, make(name)) for name in names for make in BINDINGS],
            LEASES: [ObjectKey(name, CLUSTER_LEASE) for name in names],
        }

    def expected_secrets(self, member: SimulatedCluster) -> int:
        """Return one: the cluster's own."""
        return 1

    @incident(1, DAY, excuses=True, crosses=True)
    async def credential_lost(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster's credential is deleted."""
        await quietly(self.fleet.members[incident.target].client().delete(SECRETS, SECRET))
        yield

    @incident(1, DAY, excuses=True, crosses=True)
    async def credential_damaged(self, incident: Incident) -> AsyncIterator[None]:
        """A part of the cluster's credential is overwritten."""
        key = incident.choose(("tls.crt", "tls.key", "kubeconfig", "cluster-name"))
        client = self.fleet.members[incident.target].client()
        await quietly(client.patch(SECRETS, SECRET, {"data": {key: "c2NyaWJibGU="}}))
        yield

    @incident(2, MINUTE, 4 * DAY, excuses=True, crosses=True)
    async def denial(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster is denied, and accepted again."""
        name, standing = incident.target, self.fleet.standing[incident.target]
        if standing.intent is not Intent.MEMBER:
            note_deed(done=False)  # another incident has the word
            yield
            return
        standing.intent = Intent.DENIED
        await self.admin.accept(name, accepted=False)
        standing.denied_since = self.fleet.elapsed
        yield
        await self.prober.expect_denied_refused(self.fleet.members[name])
        await self.admin.accept(name, accepted=True)
        standing.intent, standing.member_since = Intent.MEMBER, self.fleet.elapsed

    @incident(1.5, MINUTE, 2 * DAY, excuses=True, crosses=True)
    async def removal(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster is deleted, and created again."""
        name, standing = incident.target, self.fleet.standing[incident.target]
        if standing.intent is not Intent.MEMBER:
            note_deed(done=False)  # another incident has the word
            yield
            return
        standing.intent = Intent.REMOVED
        deleted_uid = await self.admin.delete_cluster(name)
        yield
        await self.prober.expect_deleted_refused(self.fleet.members[name])
        if not await self.admin.create_again(name, deleted_uid):
            self.violations.add(f"the deletion of {name} never ended", name)
        standing.intent, standing.member_since = Intent.MEMBER, self.fleet.elapsed

    @incident(2, HOUR, crosses=True)
    async def object_deleted(self, incident: Incident) -> AsyncIterator[None]:
        """A role, a binding or the lease that the hub made for the cluster is deleted."""
        name = incident.target
        resource, key = incident.choose(
            [
                (CLUSTER_ROLES, ObjectKey.cluster(cluster_role(name))),
                (CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(cluster_role(name))),
                *((ROLE_BINDINGS, ObjectKey(name, make(name))) for make in BINDINGS),
                (LEASES, ObjectKey(name, CLUSTER_LEASE)),
            ]
        )
        await quietly(self.admin.client.delete(resource, key))
        yield

    @incident(1, HOUR, crosses=True)
    async def rotation(self, incident: Incident) -> AsyncIterator[None]:
        """An early renewal is requested, perhaps while the cluster joins."""
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
        await quietly(self.admin.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(incident.target), patch))
        yield

    @incident(1, HOUR, crosses=True)
    async def rotation_while_joining(self, incident: Incident) -> AsyncIterator[None]:
        """A renewal is requested as soon as the hub knows the cluster, and again while it is under way."""
        key = ObjectKey.cluster(incident.target)
        while self.fleet.stored.get(MANAGED_CLUSTERS, key) is None:
            await asyncio.sleep(1)
            if self.fleet.elapsed > incident.at + incident.lasts:
                break
        for _ in range(2):
            patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
            await quietly(self.admin.client.patch(MANAGED_CLUSTERS, key, patch))
            await asyncio.sleep(1 + incident.amount * 5)
        yield

    @incident(2, HOUR, crosses=True)
    async def hostile_cluster(self, incident: Incident) -> AsyncIterator[None]:
        """With its own credentials, a cluster writes extremes to every field that it may write."""
        hostile = HostileCluster(self.fleet.members[incident.target], self.fleet.stored, self.admin, incident.amount)
        note_deed(done=bool(await hostile.write()))
        yield
        await undo_hostile_writes(hostile.member, self.admin)


BINDINGS = (registration_binding, work_binding)


def is_undecided(csr: Object) -> bool:
    """Whether a request was neither approved nor denied."""
    conditions = (csr.get("status") or {}).get("conditions") or ()
    return not any(row.get("type") in ("Approved", "Denied") for row in conditions)


def asks_for_another(csr: Object) -> bool:
    """Whether a request is for an identity outside of its cluster: the hub refuses it, and leaves it undecided."""
    try:
        subject = parse_csr(base64.b64decode(csr["spec"]["request"])).subject
    except PkiError:
        return True
    return f":{labels_of(csr).get(Label.CLUSTER_NAME)}:" not in subject.common_name


def validate_issued(csr: Object) -> Iterable[str]:
    """Return what is wrong with a request that was granted."""
    issued = (csr.get("status") or {}).get("certificate")
    cluster = labels_of(csr).get(Label.CLUSTER_NAME, "")
    if not issued or not cluster:
        return
    certificate = parse_certificate(base64.b64decode(issued))
    addon = labels_of(csr).get(Label.ADDON_NAME)
    own = addon_group(cluster, addon) if addon else cluster_group(cluster)
    name = csr["metadata"]["name"]
    if own not in certificate.organisations:
        yield f"request {name} of {cluster} was granted for {certificate.organisations}"
    requester = str((csr.get("spec") or {}).get("username") or "")
    if requester.startswith("system:open-cluster-management:") and f":{cluster}:" not in requester:
        yield f"request {name} of {cluster} was granted to {requester}"


def validate_requester(csr: Object) -> Iterable[str]:
    """Return what is wrong with a request, independent of its approver: only a cluster itself asks for its add-ons."""
    labels, requester = labels_of(csr), str((csr.get("spec") or {}).get("username") or "")
    if Label.ADDON_NAME in labels and f":{labels.get(Label.CLUSTER_NAME)}:" not in requester:
        yield f"request {csr['metadata']['name']} for an add-on was made by {requester}, in vain"
