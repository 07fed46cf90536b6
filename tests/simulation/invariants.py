"""What must hold in every fleet at every instant, and what must hold once it is left in peace."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.administrator import WORK_OBJECT
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.fleet import Intent, SimulatedFleet
from tests.simulation.held_credentials import ADDON, HeldCredential, addon_credential, cluster_credential
from tests.simulation.settings import HOUR
from tests.simulation.violations import Violations

from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource, labels_of, uid_of
from watchword.api.names import (
    CLUSTER_LEASE,
    ConditionType,
    Label,
    addon_group,
    addon_service_account,
    cluster_group,
    cluster_role,
    registration_binding,
    work_binding,
)
from watchword.api.resources import (
    APPLIED_MANIFEST_WORKS,
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.pki.certificates import parse_certificate
from watchword.registration.hub.retired_cluster_names import clusters_with_retired_name

RENEWAL_MARGIN = 8 * HOUR
"""Of peace before its end: so much is enough to renew any credential of a simulated fleet."""


@dataclass
class InvariantChecker:
    """Looks at the stores themselves, so that the check disturbs no program."""

    fleet: SimulatedFleet
    violations: Violations
    _judged: dict[str, str] = field(default_factory=dict)  # the UID of a request → the version that was looked at

    def look(self) -> None:
        """Check what must hold at every instant."""
        for member in self.fleet.members.values():
            for what, held in (("cluster", cluster_credential(member)), ("add-on", addon_credential(member))):
                self._check_owner(member, what, held)
                self._check_expiry(member, what, held)
            for unexpected_exit in member.agent.unexpected_exits:
                self.violations.add(unexpected_exit, member.name)
        for process in self.fleet.team.processes:
            for unexpected_exit in process.unexpected_exits:
                self.violations.add(unexpected_exit, process.name)
        self._check_requests()
        for objection in (*self._check_excess(), *self.fleet.history.too_frequent):
            self.violations.add(objection)

    def _check_owner(self, member: SimulatedCluster, what: str, held: HeldCredential | None) -> None:
        if held is not None and held.owner != member.name:
            self.violations.add(f"the {what} credential held by {member.name} is that of {held.owner!r}", member.name)

    def _check_expiry(self, member: SimulatedCluster, what: str, held: HeldCredential | None) -> None:
        standing = self.fleet.standing[member.name]
        if held is None or held.expires_at > self.fleet.now or standing.intent is not Intent.MEMBER:
            return
        end = held.expires_at - self.fleet.clock.epoch
        if what == "add-on" and not self._is_wanted_on(member):
            return
        if standing.is_calm(since=end - RENEWAL_MARGIN):
            self.violations.add(
                f"the {what} credential of {member.name} expired at {held.expires_at} in peace", member.name
            )

    def _is_wanted_on(self, member: SimulatedCluster) -> bool:
        """Whether the add-on's credential can be expected: its cluster's own is good."""
        held = cluster_credential(member)
        return bool(member.profile.addon) and held is not None and held.expires_at > self.fleet.now

    def _check_requests(self) -> None:
        """Each issued certificate names the cluster that asked; only that cluster asks for its add-ons."""
        for csr in self.fleet.stored.list(CERTIFICATE_SIGNING_REQUESTS):
            if self._judged.get(uid_of(csr)) == csr["metadata"]["resourceVersion"]:
                continue
            self._judged[uid_of(csr)] = csr["metadata"]["resourceVersion"]
            for objection in (*validate_issued(csr), *validate_requester(csr)):
                self.violations.add(objection, csr["metadata"]["name"])

    def final(self) -> None:
        """Check what must hold once no fault has happened for days."""
        self.look()
        for member in self.fleet.members.values():
            for objection in (*self._check_member(member), *self._check_holdings(member), *self._check_work(member)):
                self.violations.add(f"{member.name}: {objection}", member.name)
        for objection in self._check_leftovers():
            self.violations.add(objection)

    def _check_excess(self) -> Iterable[str]:
        """Never, not even for an instant, is there more than one of anything that an add-on needs."""
        for resource in (SERVICE_ACCOUNTS, ROLES):
            expected = expected_objects(self.fleet.members.values())[resource]
            found = {ObjectKey.of(obj) for obj in self.fleet.stored.list(resource) if _is_made(obj)}
            yield from (f"{resource.kind} {key} is one too many" for key in sorted(found - expected))
        for member in self.fleet.members.values():
            names = [obj["metadata"]["name"] for obj in member.stored.list(SECRETS)]
            if len(names) > expected_secrets(member):
                yield f"{member.name} has Secrets too many: {', '.join(names)}"

    def _check_member(self, member: SimulatedCluster) -> Iterable[str]:
        cluster = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
        if cluster is None:
            yield "the hub does not know it"
            return
        for type_ in (ConditionType.HUB_ACCEPTED, ConditionType.JOINED, ConditionType.AVAILABLE):
            if not is_true(cluster, type_):
                said = find_condition(cluster, type_)
                yield f"{type_} is not true: {said.reason + ', ' + said.message if said else 'never said'}"
        held = cluster_credential(member)
        if held is None or held.expires_at <= self.fleet.now:
            yield "it has no credential of its own"
        if find_condition(cluster, ConditionType.DELETING) is not None:
            yield "it says that it is being deleted"

    def _check_holdings(self, member: SimulatedCluster) -> Iterable[str]:
        secrets = member.stored.list(SECRETS)
        if len(secrets) != expected_secrets(member):
            yield f"it has {len(secrets)} Secrets instead of {expected_secrets(member)}"
        held = addon_credential(member)
        if member.profile.addon and (held is None or held.expires_at <= self.fleet.now):
            yield f"its add-on has no credential ({member.profile.addon})"

    def _check_work(self, member: SimulatedCluster) -> Iterable[str]:
        if member.profile.works and member.stored.get(CONFIG_MAPS, WORK_OBJECT) is None:
            yield "its work was not done"
        records = member.stored.list(APPLIED_MANIFEST_WORKS)
        if len(records) != int(member.profile.works):
            yield f"it has {len(records)} records of works"

    def _check_leftovers(self) -> Iterable[str]:
        """One namespace, role, binding and lease for each cluster; one account, role and binding for each add-on."""
        for resource, expected in expected_objects(self.fleet.members.values()).items():
            found = {ObjectKey.of(obj) for obj in self.fleet.stored.list(resource) if _is_made(obj)}
            for key in sorted(expected - found):
                yield f"{resource.kind} {key} is missing"
            for key in sorted(found - expected):
                yield f"{resource.kind} {key} is left over"


def expected_objects(members: Iterable[SimulatedCluster]) -> dict[Resource, set[ObjectKey]]:
    """Return every object that a settled hub holds for its clusters."""
    names = {member.name: member.profile.addon for member in members}
    tokens = [name for name, addon in names.items() if addon == "token"]
    bindings = {ObjectKey(name, make(name)) for name in names for make in (registration_binding, work_binding)}
    token_roles = {ObjectKey(name, f"{ADDON}-token-role") for name in tokens}
    return {
        NAMESPACES: {ObjectKey.cluster(name) for name in names},
        CLUSTER_ROLES: {ObjectKey.cluster(cluster_role(name)) for name in names},
        CLUSTER_ROLE_BINDINGS: {ObjectKey.cluster(cluster_role(name)) for name in names},
        ROLE_BINDINGS: bindings | token_roles,
        LEASES: {ObjectKey(name, CLUSTER_LEASE) for name in names},
        ROLES: token_roles,
        SERVICE_ACCOUNTS: {ObjectKey(name, addon_service_account(name, ADDON)) for name in tokens},
    }


def expected_secrets(member: SimulatedCluster) -> int:
    """Return how many Secrets a settled cluster holds: its own, and that of its add-on."""
    return 1 + bool(member.profile.addon)


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


def _is_made(obj: Object) -> bool:
    labels = labels_of(obj)
    if clusters_with_retired_name(obj):  # outlives a deleted cluster as long as its certificates may
        return False
    return Label.CLUSTER_NAME in labels or Label.TOKEN_INFRASTRUCTURE in labels
