"""What a hostile cluster writes covers every right that the hub grants, and is stored or refused as expected."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.simulation.administrator import Administrator
from tests.simulation.extremes import extreme_value, paths_of, schema_of
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.hostile import (
    HostileCluster,
    HostileWrite,
    accounts_client,
    accounts_writes,
    cluster_writes,
    undo_hostile_writes,
)
from tests.simulation.planes import PlaneImages, SeededKeys
from tests.simulation.settings import DAY
from tests.simulation.simulation import SimulationScript, simulate
from tests.simulation.test_invariants import LIFE

from watchword.accounts.hub.definition import GRANTS
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import cluster_group
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    ROLES,
)
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.registration.hub.cluster_rbac import COMMON_ROLES, accepted_rules

NAME = "edge-1"
READS = {"get", "list", "watch"}
ASKED_BY_THE_HUB = {"renew", "subscribe"}
"""Verbs that no request has: the hub asks whether a requester has them."""

ACCOUNTS_LIFE = replace(LIFE, clusters=1, days=3, pillars=("accounts",))


def rights(rules: list[Object]) -> Iterator[tuple[str, str, str]]:
    for rule in rules:
        verbs = set(rule["verbs"]) - READS - ASKED_BY_THE_HUB
        yield from ((verb, group, path) for verb in verbs for group in rule["apiGroups"] for path in rule["resources"])


def granted_rights(fleet: SimulatedFleet) -> set[tuple[str, str, str]]:
    """Return the writes that the roles of a cluster permit, and those of its agent for accounts."""
    granted: set[tuple[str, str, str]] = set()
    for binding in (*fleet.stored.list(CLUSTER_ROLE_BINDINGS), *fleet.stored.list(ROLE_BINDINGS)):
        reference, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
        is_own = namespace == NAME or any(row["name"] == cluster_group(NAME) for row in binding.get("subjects") or ())
        if is_own:
            kind, where = (ROLES, namespace) if reference["kind"] == "Role" else (CLUSTER_ROLES, "")
            role = fleet.stored.get(kind, ObjectKey(where, reference["name"])) or {}
            granted |= set(rights(role.get("rules") or []))
    return granted


def is_shown(found: Any, change: Any) -> bool:
    """Whether an object has what a merge patch says."""
    if isinstance(change, dict):
        return isinstance(found or {}, dict) and all(is_shown((found or {}).get(key), change[key]) for key in change)
    if isinstance(change, list):
        return isinstance(found, list) and len(found) == len(change) and all(map(is_shown, found, change))
    return bool(found == change)


async def find_surprise(row: HostileWrite, client: Client, fleet: SimulatedFleet) -> str:
    """Return how the server's answer differs from what the row says; empty when it does not."""
    about = f"{row.right} {str(row.change)[:200]}"
    try:
        stored = await row.send(client, fleet.stored)
    except KubeError as answer:
        return "" if type(answer) is row.refusal else f"{about}: {type(answer).__name__}: {str(answer)[:300]}"
    if row.refusal is not None:
        return f"{about}: it was stored"
    return "" if is_shown(stored, dict(row.change)) else f"{about}: it is not shown"


@pytest.mark.parametrize("amount", [0.01, 0.99])
def test_each_hostile_write_is_stored_or_refused_as_expected(images: PlaneImages, amount: float) -> None:
    surprises: list[str] = []

    async def write(fleet: SimulatedFleet) -> None:
        member = fleet.members[NAME]
        hostile = HostileCluster(member, fleet.stored, Administrator(fleet), amount)
        await hostile.write()  # makes the work, too
        own = member.as_itself()
        assert own is not None
        rows = [(own, row) for row in cluster_writes(NAME, amount / 2, SeededKeys(Random(7)))]
        rows += [(accounts_client(member), row) for row in accounts_writes(NAME, amount / 2)]
        surprises.extend([found for client, row in rows if (found := await find_surprise(row, client, fleet))])
        await undo_hostile_writes(hostile.member, hostile.admin)

    simulate(ACCOUNTS_LIFE, images, SimulationScript(sabotage=(ACCOUNTS_LIFE.faults_end, write)))

    assert surprises == []


def test_every_right_that_the_hub_grants_to_a_cluster_is_used_by_a_hostile_one(images: PlaneImages) -> None:
    granted: set[tuple[str, str, str]] = set()

    async def look(fleet: SimulatedFleet) -> None:
        granted.update(granted_rights(fleet))

    simulate(ACCOUNTS_LIFE, images, SimulationScript(sabotage=(ACCOUNTS_LIFE.faults_end, look)))

    used = {row.right for row in (*cluster_writes(NAME, 0.5, SeededKeys(Random(1))), *accounts_writes(NAME, 0.5))}
    declared = [*accepted_rules(NAME), *(rule for rules in COMMON_ROLES.values() for rule in rules)]
    declared += [dict(rule) for grant in GRANTS for rule in grant.rules]
    assert set(rights(declared)) <= granted
    assert used == granted


NOT_WRITTEN = {
    ("ManagedCluster", "spec", "hubAcceptsClient"),  # the access probes try it
    ("ManagedClusterAddOn", "spec"),  # no right permits it
    *(("ManagedClusterAddOn", "status", "registrations", name) for name in ("signerName", "subject")),  # of v1alpha1
    *(
        ("ManagedClusterAddOn", "status", "registrations", signer, "subject", "organizationUnit")
        for signer in ("kubeClient", "customSigner")
    ),
}


def test_every_field_that_a_cluster_may_write_is_written_by_a_hostile_one() -> None:
    rows = [row for amount in (0.1, 0.9) for row in cluster_writes(NAME, amount, SeededKeys(Random(1)))]
    missing: list[tuple[str, ...]] = []
    for kind in (MANAGED_CLUSTERS, MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS):
        written = {path for row in rows if row.resource is kind for path in paths_of(dict(row.change))}
        whole = {part: extreme_value(schema_of(kind, part), "x") for part in ("spec", "status")}
        missing += [(kind.kind, *path) for path in paths_of(whole) if path not in written]

    assert {path for path in missing if not any(path[: len(other)] == other for other in NOT_WRITTEN)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("amount", [0.3, 0.99])
def test_fleet_gets_over_everything_that_a_hostile_cluster_writes(images: PlaneImages, amount: float) -> None:
    stored: list[HostileWrite] = []

    async def write(fleet: SimulatedFleet) -> None:
        hostile = HostileCluster(fleet.members[NAME], fleet.stored, Administrator(fleet), amount, most=10**6)
        stored.extend(await hostile.write())
        await undo_hostile_writes(hostile.member, hostile.admin)

    life = replace(LIFE, clusters=2, days=9, quiet=4 * DAY, pillars=("accounts",))
    report = simulate(life, images, SimulationScript(sabotage=(2 * DAY, write)))

    rows = [*cluster_writes(NAME, amount, SeededKeys(Random(1))), *accounts_writes(NAME, amount)]
    assert len(stored) > 0.9 * sum(row.refusal is None for row in rows)  # the hub corrects some of it meanwhile
    assert report.is_clean, str(report)
