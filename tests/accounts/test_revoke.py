"""`watchword revoke serviceaccount`, and tokens of accounts among what a lost machine held."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.accounts.fleet import AccountsFleet
from tests.accounts.test_revocation import a_reported_account

from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Unauthorized
from watchword.testing.eventually import eventually, is_gone

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180), pytest.mark.usefixtures("logs_in_file")]
MSA = MANAGED_SERVICE_ACCOUNTS
Output = pytest.CaptureFixture[str]


async def watchword(fleet: AccountsFleet, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(fleet.plane.kubeconfig)])


async def test_revoked_account_is_refused_and_another_is_not(fleet: AccountsFleet, capsys: Output) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)
    _, other = await a_reported_account(fleet, member.name, "other")
    assert await watchword(fleet, "revoke", "serviceaccount", str(key), "--dry-run") == 0
    assert f"have the agent on {member.name} delete its ServiceAccount" in capsys.readouterr().out
    await who_am_i(fleet.as_token(token))

    assert await watchword(fleet, "revoke", "serviceaccount", str(key), "--yes", "--wait", "-o", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)["revocations"]
    assert [refusal["holder"] for refusal in row["refusals"]] == [f"account {key}", f"token for {member.name}"]
    assert all(refusal["seconds"] is not None for refusal in row["refusals"])
    with pytest.raises(Unauthorized):
        await who_am_i(fleet.as_token(token))
    await who_am_i(fleet.as_token(other))
    assert await watchword(fleet, "revoke", "serviceaccount", str(key), "--yes") == ExitCode.NOT_FOUND
    assert "there is no account robot" in " ".join(capsys.readouterr().err.split())


async def test_kubeconfig_of_an_account_names_the_account(fleet: AccountsFleet, tmp_path: Path, capsys: Output) -> None:
    member = await fleet.cluster()
    key, _ = await a_reported_account(fleet, member.name)
    path = tmp_path / "robot.kubeconfig"
    where = ("-n", member.name, "--cluster", member.name)
    assert await watchword(fleet, "serviceaccount", "kubeconfig", "robot", *where, "--file", str(path)) == 0

    assert await watchword(fleet, "revoke", "held-by", str(path), "--yes", "-o", "json") == 0
    (held,) = json.loads(capsys.readouterr().out)["held"]
    assert (held["kind"], held["name"]) == ("serviceaccount", str(key))
    await eventually(fleet.client, MSA, key, is_gone)
