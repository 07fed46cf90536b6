"""`watchword serviceaccount`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import asyncio
import re
import stat
import sys
from pathlib import Path

import orjson
import pytest
from tests.accounts.fleet import AccountsFleet

from watchword.accounts.grants import AccountRight, work_key
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, MANIFEST_WORKS
from watchword.cli.main import run
from watchword.kube.access_reviews import who_am_i
from watchword.kube.connect import connect
from watchword.testing.eventually import eventually, is_gone

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120), pytest.mark.usefixtures("logs_in_file")]
MSA = MANAGED_SERVICE_ACCOUNTS


async def watchword(fleet: AccountsFleet, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(fleet.plane.kubeconfig)])


async def username_by(kubeconfig: Path) -> str:
    client = connect(kubeconfig)
    try:
        return (await who_am_i(client)).username
    finally:
        await client.close()


async def test_account_is_created_shown_and_deleted(fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]) -> None:
    member = await fleet.cluster()
    where = ("-n", member.name)
    assert await watchword(fleet, "msa", "create", "robot", *where, "--validity", "1h", "--wait") == 0
    assert f"account robot created in {member.name}" in capsys.readouterr().out

    assert await watchword(fleet, "serviceaccount", "create", "robot", *where) == 0
    assert "exists already" in capsys.readouterr().out
    assert await watchword(fleet, "serviceaccount", "list", *where) == 0
    assert f"robot   {member.name}" in capsys.readouterr().out
    assert await watchword(fleet, "serviceaccount", "show", "robot", *where) == 0
    shown = capsys.readouterr().out
    assert "AllServiceAccountPresent: True" in shown
    assert (await fleet.secret(ObjectKey(member.name, "robot"))).token.reveal() not in shown

    assert await watchword(fleet, "serviceaccount", "delete", "robot", *where, "--wait") == 0
    assert re.search(rf"{member.name}: token refused \d+\.\d s after the deletion", capsys.readouterr().out)
    assert await fleet.client.find(MSA, ObjectKey(member.name, "robot")) is None


async def test_only_a_token_that_was_accepted_before_is_measured(
    fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    member = await fleet.cluster()
    where = ("-n", member.name)
    assert await watchword(fleet, "msa", "create", "robot", *where, "--audiences", "https://other.test", "--wait") == 0

    assert await watchword(fleet, "msa", "delete", "robot", *where, "--wait") == 0

    assert f"{member.name}: refused its token before the deletion, too" in capsys.readouterr().out
    assert await watchword(fleet, "msa", "create", "robot", *where, "--audiences", ",") == 2


async def test_deletion_without_a_refusal_observed_is_no_success(
    fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    member = await fleet.cluster(managedClusterClientConfigs=[{"url": "https://127.0.0.1:1"}])
    where = ("-n", member.name)
    assert await watchword(fleet, "msa", "create", "robot", *where, "--wait") == 0

    assert await watchword(fleet, "msa", "delete", "robot", *where, "--wait", "--timeout", "20s") == 3

    assert f"{member.name}: no refusal of its token observed" in capsys.readouterr().out


async def test_kubeconfig_with_the_token_reaches_the_cluster(fleet: AccountsFleet, tmp_path: Path) -> None:
    member = await fleet.cluster()
    await fleet.until(await fleet.declare(member.name, "robot"))
    path = tmp_path / "config"

    argv = ("serviceaccount", "kubeconfig", "robot", "--cluster", member.name)
    assert await watchword(fleet, *argv, "--file", str(path)) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await username_by(path) == f"system:serviceaccount:{member.namespace}:robot"
    assert await watchword(fleet, *argv) == 2


async def test_kubeconfig_with_a_plugin_holds_no_secret_and_reaches_the_cluster(
    fleet: AccountsFleet, tmp_path: Path
) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    path, program = tmp_path / "config", tmp_path / "watchword"
    argv = ("msa", "kubeconfig", "robot", "--cluster", member.name, "--exec", "--file", str(path))
    assert await watchword(fleet, *argv) == 0
    text = path.read_text()
    assert (await fleet.secret(key)).token.reveal() not in text

    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m watchword "$@"\n')
    program.chmod(0o700)
    path.write_text(text.replace("command: watchword", f"command: {program}"))
    assert await username_by(path) == f"system:serviceaccount:{member.namespace}:robot"


async def test_plugin_prints_the_expiry(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    argv = ["msa", "exec-credential", "robot", "--cluster", member.name, "--kubeconfig", str(fleet.plane.kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "watchword", *argv, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    status = orjson.loads(printed)["status"]
    secret = await fleet.secret(key)
    assert status["expirationTimestamp"] == secret.annotations["accounts.watchword.dev/expires"]


async def test_token_that_is_not_there_is_refused_with_advice(
    fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await watchword(fleet, "msa", "exec-credential", "robot", "--cluster", "nowhere") == 7
    assert "watchword serviceaccount show robot -n nowhere" in capsys.readouterr().err
    assert await watchword(fleet, "msa", "show", "robot", "-n", "nowhere") == 7


async def test_held_account_can_be_abandoned(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    await fleet.stop_agent(member)
    assert await watchword(fleet, "msa", "delete", "robot", "-n", member.name, "--abandon") == 0
    await eventually(fleet.client, MSA, key, is_gone)


async def test_grant_is_a_work_for_each_cluster(fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    grant = ("msa", "grant", "robot", "-n", member.name, "--cluster-role", "view")
    assert await watchword(fleet, *grant, "--clusters", "another", "--dry-run") == 0
    assert "would be given" not in capsys.readouterr().out
    assert await watchword(fleet, *grant, "--clusters", member.name, "--remove") == 2
    assert await watchword(fleet, *grant) == 0
    assert f"is given view on {member.name}" in capsys.readouterr().out

    work = work_key(key, member.name, AccountRight("view"))
    (binding,) = (await eventually(fleet.client, MANIFEST_WORKS, work))["spec"]["workload"]["manifests"]
    assert binding["roleRef"]["name"] == "view"
    assert binding["subjects"][0]["name"] == "robot"
    assert await watchword(fleet, *grant, "--remove") == 0
    await eventually(fleet.client, MANIFEST_WORKS, work, is_gone)


async def test_refused_grant_says_what_to_run_on_the_cluster(
    fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    member = await fleet.cluster()
    await fleet.until(await fleet.declare(member.name, "robot"))
    grant = ("msa", "grant", "robot", "-n", member.name, "--cluster-role", "view", "--wait", "--timeout", "1s")
    assert await watchword(fleet, *grant) != 0
    printed = capsys.readouterr().err
    assert "kubectl create clusterrole watchword-account-grants" in printed
    assert f"on {member.name}, run" in printed


async def test_account_in_an_unbound_namespace_is_not_waited_for(
    fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    await fleet.cluster()
    namespace = await fleet.plane.namespace("team")

    # Without the refusal the command would wait for its time limit, which is longer than that of the test.
    argv = ("serviceaccount", "create", "robot", "-n", namespace, "--wait", "--timeout", "1h")
    assert await watchword(fleet, *argv) == 4
    assert "neither a cluster's nor bound to a cluster set" in capsys.readouterr().err


async def test_account_whose_name_is_taken_is_not_waited_for(
    fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    member = await fleet.cluster()

    argv = ("serviceaccount", "create", "managed-serviceaccount", "-n", member.name, "--wait", "--timeout", "1h")
    assert await watchword(fleet, *argv) == 4
    assert "waits for a person" in capsys.readouterr().err


async def test_an_audience_has_a_name(fleet: AccountsFleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert await watchword(fleet, "serviceaccount", "create", "robot", "-n", "edge", "--audiences", ",") == 2
    assert "'--audiences': the text is empty" in capsys.readouterr().err
