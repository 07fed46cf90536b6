"""Faults that were mended are put back into the code, and a life finds each of them; without the fault it is clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.shrinking import Shrinker, as_test
from tests.simulation.simulation import SimulationScript, simulate

from watchword.accounts.agent.account import ServiceAccounts, is_managed
from watchword.accounts.hub import controllers as account_controllers
from watchword.addons.agent import controllers as addon_agent
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SERVICE_ACCOUNTS
from watchword.credentials.driver import WantedCredential
from watchword.registration.agent.controllers import HubCredentialReconciler
from watchword.registration.certificate_approval import CertificateApprovalReconciler


def use_the_first_uid(self: ServiceAccounts) -> list[Object]:
    """Name an owner that is gone once the agent's ServiceAccount was created again: all that is made is collected."""
    return list(self.owners)


def believe_every_end(_: Object) -> bool:
    """Report tokens as refused whenever an account is gone, also when its cluster never answered."""
    return True


LIFE = SimulationSettings(seed=1, clusters=1, days=5, quiet=2 * DAY, background_faults=FaultPlan())


async def remove_what_is_cached(self: ServiceAccounts, name: str, **_: Any) -> bool:
    """Take a ServiceAccount whose marks were removed for one that is gone: tokens that work are reported revoked."""
    found = self.reader.get(SERVICE_ACCOUNTS, ObjectKey(self.namespace, name))
    if found is None or not is_managed(found):
        return False
    await self.client.delete(SERVICE_ACCOUNTS, ObjectKey.of(found))
    return True


def rotate_while_joining(self: HubCredentialReconciler) -> WantedCredential:
    """Honour a requested rotation also while the cluster joins: it asks twice, with two keys, before it is known."""
    found = self.hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.identity.cluster))
    asked = annotations_of(found or {}).get(Annotation.ROTATION_REQUEST, "")
    return WantedCredential(
        self.identity.cluster,
        self.identity.subject,
        requester=self.session.requester,
        refused=frozenset({self.session.refused_id}),
        rotation=asked,
    )


def never_supersede(*_: Any) -> bool:
    """Leave the request that the agent does not need any more undecided."""
    return False


def never_ask_the_hub(*_: Any) -> None:
    """Show no token of an add-on to the hub: one of a withdrawn signing key stays until it expires."""


MUTATIONS = (
    pytest.param(
        ((ServiceAccounts, "remove", remove_what_is_cached),),
        (Incident(DAY, "account_unmarked_and_deleted", "edge-1", HOUR, 0.5),),
        "accepts a token of robot, whose revocation was reported",
        id="false revocation: unmarked taken for gone",
    ),
    pytest.param(
        (
            (HubCredentialReconciler, "wanted", rotate_while_joining),
            (CertificateApprovalReconciler, "_is_superseded", never_supersede),
        ),
        (
            Incident(timedelta(0), "hub_outage", "", HOUR, 0.5),
            Incident(HOUR / 2, "rotation_while_joining", "edge-1", HOUR, 0.5),
        ),
        "waits undecided",
        id="rotation during a join",
    ),
    pytest.param(
        ((ServiceAccounts, "_current_owners", use_the_first_uid),),
        (Incident(3 * DAY - 2 * HOUR, "agent_account_replaced", "edge-1", HOUR, 0.5),),
        "it has the ServiceAccounts ['managed-serviceaccount']",
        id="owner that is gone",
    ),
    pytest.param(
        ((account_controllers, "is_confirmed", believe_every_end),),
        (
            Incident(DAY, "partition", "edge-1", DAY, 0.5),
            Incident(DAY + HOUR, "account_deleted", "edge-1", HOUR, 0.5),
            Incident(DAY + 2 * HOUR, "accounts_disabled", "edge-1", HOUR, 0.5),
        ),
        "accepts a token of robot, whose revocation was reported",
        id="false revocation: never confirmed",
    ),
    pytest.param(
        ((addon_agent, "_add_evidence_monitor", never_ask_the_hub),),
        (Incident(DAY, "hub_token_key", "", HOUR, 0.9),),
        "the hub refuses the token of its add-on",
        id="key change",
    ),
)


@pytest.mark.timeout(900)  # of wall time: a life takes up to a minute of CPU, and the cores may be busy
@pytest.mark.slow
@pytest.mark.parametrize(("faults", "incidents", "noticed"), MUTATIONS)
def test_fault_that_is_put_back_is_found(
    images: PlaneImages,
    monkeypatch: pytest.MonkeyPatch,
    faults: tuple[tuple[Any, str, Callable[..., Any]], ...],
    incidents: tuple[Incident, ...],
    noticed: str,
) -> None:
    life, script = replace(LIFE, pillars=("accounts",)), SimulationScript(incidents)
    clean = simulate(life, images, script)
    for where, name, fault in faults:
        monkeypatch.setattr(where, name, fault)

    report = simulate(life, images, script)

    assert clean.is_clean, str(clean)
    assert any(noticed in violation.what for violation in report.violations), str(report)


FALSE_REVOCATION, ROTATION, KEY_CHANGE = (MUTATIONS[number].values for number in (0, 1, 4))
LONG = SimulationSettings(clusters=1, days=20, incidents_per_day=5, pillars=("accounts",))
DENSE = SimulationSettings(
    clusters=5,
    days=6,
    quiet=4 * DAY,
    incidents_per_day=30,
    kinds=("worst_moment", "removal", "hub_outage", "rotation_while_joining"),
)
DRAWN = (
    pytest.param(FALSE_REVOCATION, LONG, (1, 4, 6), id="false revocation"),
    pytest.param(ROTATION, DENSE, (2,), id="rotation during a join"),
    pytest.param(KEY_CHANGE, replace(LONG, clusters=3, pillars=()), (102, 104, 105), id="key change"),
)
"""Lives of 60 incidents, drawn from their seeds; the first that finds the fault is shrunk.

When another change lets none of them find it, `simulate` with other seeds does: of false revocations and key changes
one life in three, of a rotation during a join one in forty.
"""


@pytest.mark.timeout(1800)  # of wall time: the longest takes two minutes of CPU, and the cores may be busy
@pytest.mark.slow
@pytest.mark.parametrize(("mutation", "life", "seeds"), DRAWN)
def test_drawn_life_that_finds_a_fault_shrinks_to_a_test_with_few_incidents(
    images: PlaneImages,
    monkeypatch: pytest.MonkeyPatch,
    mutation: Sequence[Any],
    life: SimulationSettings,
    seeds: Sequence[int],
) -> None:
    faults, _, noticed = mutation
    for where, name, fault in faults:
        monkeypatch.setattr(where, name, fault)
    reports = (simulate(replace(life, seed=seed), images) for seed in seeds)
    report = next(one for one in reports if not one.is_clean and noticed in one.violations[0].what)

    smallest = Shrinker(images, float("inf"), enough=10).shrink(report)

    assert len(report.incidents) == 60
    assert len(smallest.incidents) <= 10, str(smallest)
    assert noticed in smallest.violations[0].what
    printed = dict(globals())  # what the command line prints is a test, and it fails
    exec(as_test(smallest), printed)
    with pytest.raises(AssertionError, match="broken promises"):
        printed["test_life_that_once_broke_a_promise_breaks_none"](images)
    monkeypatch.undo()
    assert simulate(report.settings, images).is_clean, "without the fault"
