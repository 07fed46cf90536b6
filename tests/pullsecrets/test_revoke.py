"""`watchword revoke pull-secret`: the token is refused, and the controllers issue another one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.pullsecrets.harness import PullSecretHarness, claims_of, holds_another_token, token_of

from watchword.api.meta import Object, uid_of
from watchword.api.sensitive import Sensitive
from watchword.api.yaml import dump
from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run
from watchword.kube.access_reviews import review_token

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180), pytest.mark.usefixtures("logs_in_file")]
Output = pytest.CaptureFixture[str]


async def watchword(cluster: PullSecretHarness, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(cluster.plane.kubeconfig)])


async def is_accepted(cluster: PullSecretHarness, secret: Object) -> bool:
    audiences = claims_of(secret)["aud"]
    return await review_token(cluster.client, Sensitive(token_of(secret)), audiences=audiences) is not None


async def a_pull_secret(cluster: PullSecretHarness, account: str) -> Object:
    await cluster.account(account)
    return await cluster.listed(account)


async def test_revoked_pull_secret_is_refused_and_replaced(cluster: PullSecretHarness, capsys: Output) -> None:
    cluster.start()
    secret, other = await a_pull_secret(cluster, "builder"), await a_pull_secret(cluster, "other")
    name = str(cluster.key("builder"))
    assert await watchword(cluster, "revoke", "pull-secret", name, "--dry-run") == 0
    assert "issue a new secret" in capsys.readouterr().out
    assert await is_accepted(cluster, secret)

    assert await watchword(cluster, "revoke", "pull-secret", name, "--yes", "--wait", "-o", "json") == 0
    shown = capsys.readouterr().out
    (refusal,) = json.loads(shown)["revocations"][0]["refusals"]
    assert refusal["seconds"] >= 0
    assert token_of(secret) not in shown
    assert not await is_accepted(cluster, secret)
    assert await is_accepted(cluster, other)
    new = await cluster.secret(secret["metadata"]["name"], holds_another_token(secret))
    assert uid_of(new) != uid_of(secret)
    assert await is_accepted(cluster, new)


async def test_token_in_a_kubeconfig_names_its_pull_secret(
    cluster: PullSecretHarness, tmp_path: Path, capsys: Output
) -> None:
    cluster.start()
    secret = await a_pull_secret(cluster, "builder")
    path = tmp_path / "kubeconfig"
    user = {"name": "builder", "user": {"token": token_of(secret)}}
    path.write_text(dump({"apiVersion": "v1", "kind": "Config", "users": [user]}))

    assert await watchword(cluster, "revoke", "held-by", str(path), "--yes", "--wait", "-o", "json") == 0
    (held,) = json.loads(capsys.readouterr().out)["held"]
    assert (held["kind"], held["name"]) == ("pull-secret", str(cluster.key("builder")))
    assert not await is_accepted(cluster, secret)


async def test_account_without_a_pull_secret_is_named(cluster: PullSecretHarness, capsys: Output) -> None:
    await cluster.account("builder")
    assert await watchword(cluster, "revoke", "pull-secret", str(cluster.key("builder")), "--yes") == ExitCode.NOT_FOUND
    assert "has no pull secret" in " ".join(capsys.readouterr().err.split())


async def test_revoking_a_legacy_pull_secret_ends_its_long_lived_token(
    cluster: PullSecretHarness, capsys: Output
) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    assert await watchword(cluster, "revoke", "pull-secret", str(cluster.key("builder")), "--yes", "--wait") == 0
    said = capsys.readouterr().out
    for obj in (token, secret):
        assert f"{cluster.namespace}/{obj['metadata']['name']}: refused after" in said
