"""Denials and revocations without an effect, and credentials that end between two looks, are noticed."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, MINUTE
from tests.simulation.simulation import SimulationScript, simulate
from tests.simulation.test_invariants import EARLY, LIFE, grant_too_much

from watchword.addons.token import hub as token_hub
from watchword.api.accounts import AccountSecret
from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, SECRETS
from watchword.api.time import rfc3339


async def outlive_the_denial(fleet: SimulatedFleet) -> None:
    await grant_too_much(fleet, to="edge-1", within="edge-1")


def test_a_denied_cluster_that_may_still_write_is_noticed(images: PlaneImages) -> None:
    denial = Incident(DAY, "denial", "edge-1", 6 * HOUR, 0.5)

    report = simulate(LIFE, images, SimulationScript((denial,), sabotage=(DAY - HOUR, outlive_the_denial)))

    found = [violation.what for violation in report.violations]
    assert "the hub allowed a denied cluster, edge-1, to list the works" in found
    assert "the hub allowed a denied cluster, edge-1, to renew the lease" in found


async def keep_the_agent_for_accounts(fleet: SimulatedFleet) -> None:
    await grant_too_much(fleet, to="cluster:edge-2:addon:managed-serviceaccount", within="edge-2")


def test_a_denied_cluster_whose_accounts_can_be_listed_is_noticed(images: PlaneImages) -> None:
    denial, life = Incident(DAY, "denial", "edge-2", 12 * HOUR, 0.5), replace(LIFE, pillars=("accounts",))

    report = simulate(life, images, SimulationScript((denial,), sabotage=(DAY - HOUR, keep_the_agent_for_accounts)))

    found = [violation.what for violation in report.violations]
    assert "the hub allowed the agent of a denied cluster, edge-2, to list accounts" in found, str(report)


async def stop_the_hub(fleet: SimulatedFleet) -> None:
    await fleet.team.stop()


def test_hub_that_never_acts_on_a_denial_is_noticed(images: PlaneImages) -> None:
    denial, noticed = Incident(DAY, "denial", "edge-1", 12 * HOUR, 0.5), "the hub allowed a denied cluster, edge-1, to"
    sought = SimulationScript((denial,), sabotage=(DAY - HOUR, stop_the_hub), is_sought=lambda what: noticed in what)

    report = simulate(LIFE, images, sought)

    assert any(noticed in violation.what for violation in report.violations), str(report)


def test_a_denied_cluster_whose_addon_keeps_its_token_is_noticed(
    images: PlaneImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_hub, "is_accepted", lambda _: True)
    denial = Incident(DAY, "denial", "edge-1", 12 * HOUR, 0.5)

    report = simulate(LIFE, images, SimulationScript((denial,)))

    assert any("the token of edge-1, which is denied, was answered" in one.what for one in report.violations), str(
        report
    )


async def accept_a_revoked_token(fleet: SimulatedFleet) -> None:
    """Let the cluster accept the first token of an account for two hours, whose revocation was reported before."""
    client, plane, key = fleet.hub.administrator(), fleet.members["edge-1"].plane, ObjectKey("edge-1", "robot")
    first = AccountSecret.read(fleet.stored.get(SECRETS, key) or {}).token.reveal()
    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(fleet.now)}}}
    await client.patch(MANAGED_SERVICE_ACCOUNTS, key, patch)
    await asyncio.sleep(7 * 3600)  # the second one is used
    await client.delete(MANAGED_SERVICE_ACCOUNTS, key)
    await asyncio.sleep(14 * 3600)  # the Event is gone
    until = fleet.elapsed + 2 * HOUR  # less than a step: consumers notice it

    async def accepts(token: str) -> bool:
        return token == first and fleet.elapsed < until

    plane.accepts = accepts  # type: ignore[method-assign]


def test_revoked_token_of_an_account_that_works_again_is_noticed(images: PlaneImages) -> None:
    noticed = "edge-1 accepts a token of robot, whose revocation was reported"
    script = SimulationScript(sabotage=(EARLY, accept_a_revoked_token), is_sought=lambda what: noticed in what)

    report = simulate(replace(LIFE, pillars=("accounts",)), images, script)

    assert any(noticed in violation.what for violation in report.violations), str(report)


async def let_tokens_end_between_two_looks(fleet: SimulatedFleet) -> None:
    """Keep the agent for accounts away until its tokens have ended, and a minute more."""
    agent = fleet.process("edge-1-accounts")
    agent.kill()
    keys = (ObjectKey("edge-1", name) for name in ("robot", "crew"))
    tokens = [AccountSecret.read(fleet.stored.get(SECRETS, key) or {}) for key in keys]
    end = max(token.expires_at for token in tokens if token.expires_at is not None)
    await asyncio.sleep((end - fleet.now + MINUTE).total_seconds())
    agent.start()


def test_credential_that_ended_between_two_looks_is_noticed(images: PlaneImages) -> None:
    script = SimulationScript(sabotage=(DAY / 2, let_tokens_end_between_two_looks))

    report = simulate(replace(LIFE, pillars=("accounts",)), images, script)

    ended = {one.what.partition(" expired at ")[0] for one in report.violations}
    assert ended == {f"the account {name} credential of edge-1" for name in ("robot", "crew")}
