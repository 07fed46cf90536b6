"""What must hold in every fleet at every instant, and what must hold once it is left in peace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.simulation.cluster import SimulatedCluster
from tests.simulation.fleet import Intent, SimulatedFleet
from tests.simulation.held_credentials import HeldCredential, cluster_credential
from tests.simulation.hostile import HOSTILE_SIGNER
from tests.simulation.pillar import RENEWS_WITHIN, Pillar
from tests.simulation.settings import HOUR
from tests.simulation.violations import Violations

from watchword.api.meta import Object, ObjectKey, Resource, labels_of
from watchword.api.names import Label
from watchword.api.resources import ROLES, SECRETS, SERVICE_ACCOUNTS
from watchword.registration.hub.cluster_rbac import clusters_with_retired_name

LOOKED_BACK, MOST_ENDS = 6 * HOUR, 6
"""From one look to the next: how often a program may end by itself in that time."""


@dataclass
class InvariantChecker:
    """Looks at the stores themselves, so that the check disturbs no program."""

    fleet: SimulatedFleet
    pillars: Sequence[Pillar]
    violations: Violations
    _ended: Counter[str] = field(default_factory=Counter)  # program → how often until the last look
    _ends: dict[tuple[str, str], datetime] = field(default_factory=dict)  # of what was held at the last look

    def look(self) -> None:
        """Check what must hold at every instant."""
        found = [held for pillar in self.pillars for held in pillar.held()]
        for held in found:
            self._check_held(held)
        self._ends = {(held.cluster, held.what): held.expires_at for held in found if self._is_renewable(held)}
        for pillar in self.pillars:
            for objection, about in pillar.objections():
                self.violations.add(objection, about)
        for process in self.fleet.processes:
            for unexpected_exit in process.unexpected_exits:
                self.violations.add(unexpected_exit, process.name)
        for objection in (*self._check_ends(), *self._check_excess(), *self.fleet.history.too_frequent):
            self.violations.add(objection)

    def _check_ends(self) -> Iterable[str]:
        """No program ends again and again in peace."""
        standing, since = self.fleet.standing, self.fleet.elapsed - LOOKED_BACK
        for process in self.fleet.processes:
            concerned = [standing[process.cluster]] if process.cluster else standing.values()
            ends, self._ended[process.name] = process.ends - self._ended[process.name], process.ends
            if ends > MOST_ENDS and all(each.is_calm(since=since) for each in concerned):
                yield f"{process.name} ended {ends} times by itself, in peace"

    def _check_held(self, held: HeldCredential) -> None:
        """No member holds a credential of another, and none expires while its hub was reachable long enough."""
        name = held.cluster
        if held.owner != name:
            self.violations.add(f"the {held.what} credential held by {name} is that of {held.owner!r}", name)
        standing = self.fleet.standing[name]
        before = self._ends.get((name, held.what), held.expires_at)
        expires_at = before if before < held.issued_at else held.expires_at
        if expires_at > self.fleet.now or standing.intent is not Intent.MEMBER or not self._is_renewable(held):
            return
        end = expires_at - self.fleet.clock.epoch
        if standing.is_calm(since=end - RENEWS_WITHIN):
            self.violations.add(f"the {held.what} credential of {name} expired at {expires_at} in peace", name)

    def _is_renewable(self, held: HeldCredential) -> bool:
        """Nothing of a cluster can be expected whose own credential is not good."""
        own = cluster_credential(self.fleet.members[held.cluster])
        return held.what == "cluster" or (own is not None and own.expires_at > self.fleet.now)

    def final(self) -> None:
        """Check what must hold once no fault has happened for days."""
        self.look()
        for pillar in self.pillars:
            for objection, about in pillar.unsettled():
                self.violations.add(objection, about)
        for member in self.fleet.members.values():
            found, expected = len(member.stored.list(SECRETS)), self._expected_secrets(member)
            if found != expected:
                self.violations.add(f"{member.name}: it has {found} Secrets instead of {expected}", member.name)
        for objection in self._check_leftovers():
            self.violations.add(objection)

    def _expected_secrets(self, member: SimulatedCluster) -> int:
        return sum(pillar.expected_secrets(member) for pillar in self.pillars)

    def _expected_objects(self) -> dict[Resource, set[ObjectKey]]:
        found: dict[Resource, set[ObjectKey]] = {}
        for pillar in self.pillars:
            for resource, keys in pillar.expected_objects().items():
                found.setdefault(resource, set()).update(keys)
        return found

    def _check_excess(self) -> Iterable[str]:
        """Never, not even for an instant, is there more than one of anything that an add-on needs."""
        expected = self._expected_objects()
        for resource in (SERVICE_ACCOUNTS, ROLES):
            found = {ObjectKey.of(obj) for obj in self.fleet.stored.list(resource) if _is_made(obj)}
            yield from (
                f"{resource.kind} {key} is one too many" for key in sorted(found - expected.get(resource, set()))
            )
        for member in self.fleet.members.values():
            names = [obj["metadata"]["name"] for obj in member.stored.list(SECRETS)]
            names = [name for name in names if HOSTILE_SIGNER.replace("/", "-") not in name]  # its add-on declares it
            if len(names) > self._expected_secrets(member):
                yield f"{member.name} has Secrets too many: {', '.join(names)}"

    def _check_leftovers(self) -> Iterable[str]:
        """The labelled objects of a settled hub are those that its pillars expect."""
        for resource, expected in self._expected_objects().items():
            found = {ObjectKey.of(obj) for obj in self.fleet.stored.list(resource) if _is_made(obj)}
            for key in sorted(expected - found):
                yield f"{resource.kind} {key} is missing"
            for key in sorted(found - expected):
                yield f"{resource.kind} {key} is left over"


def _is_made(obj: Object) -> bool:
    labels = labels_of(obj)
    if clusters_with_retired_name(obj):  # outlives a deleted cluster as long as its certificates may
        return False
    return Label.CLUSTER_NAME in labels or Label.TOKEN_INFRASTRUCTURE in labels
