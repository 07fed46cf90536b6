"""Whatever is lost, refused or killed, each account ends with one valid pull secret and nothing comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults
from tests.helpers.replaced_account import ReplacedAccountTransport
from tests.pullsecrets.harness import PullSecretHarness, claims_of, is_filled

from watchword.api.meta import ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import ANNOTATION_ACCOUNT
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.kube.errors import NotFound
from watchword.kube.transport import Transport

FAULTS = FaultPlan(refuse=0.03, lose=0.03, fail=0.05, delay=0.1, watch=WatchFaults(drop=0.02, delay=0.1, expire=0.01))


@pytest.mark.planes("embedded")
@pytest.mark.parametrize("seed", range(5))
async def test_accounts_and_secrets_that_come_and_go_under_faults_settle(cluster: PullSecretHarness, seed: int) -> None:
    random = Random(seed)
    weather: list[FaultyTransport] = []

    def through(transport: Transport) -> Transport:
        weather.append(FaultyTransport(transport, FAULTS, random))
        return weather[-1]

    cluster.through = through
    cluster.start()
    deleted = await _disturb(cluster, random)
    for transport in weather:
        transport.plan = FaultPlan()
    await asyncio.sleep(2000)  # longer than the longest backoff

    accounts = (await cluster.client.list(SERVICE_ACCOUNTS, namespace=cluster.namespace)).items
    secrets = await cluster.pull_secrets()
    owners = Counter(annotations_of(secret)[ANNOTATION_ACCOUNT] for secret in secrets)
    assert owners == Counter(account["metadata"]["name"] for account in accounts)
    assert not deleted & {uid_of(each) for each in (*accounts, *secrets)}
    uids = {account["metadata"]["name"]: uid_of(account) for account in accounts}
    for secret in secrets:
        claims = claims_of(secret)
        name = annotations_of(secret)[ANNOTATION_ACCOUNT]
        assert claims["kubernetes.io"]["serviceaccount"] == {"name": name, "uid": uids[name]}
        assert claims["exp"] > cluster.plane.clock.now().timestamp()


async def _disturb(cluster: PullSecretHarness, random: Random) -> set[str]:
    """Create and delete accounts and secrets, and kill the controllers now and then; return what was deleted."""
    deleted: set[str] = set()
    for step in range(150):
        name = f"account-{random.randrange(8)}"
        account = await cluster.client.find(SERVICE_ACCOUNTS, cluster.key(name))
        if account is None:
            await cluster.account(name)
        elif random.random() < 0.3:
            await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key(name), uid=uid_of(account))
            deleted.add(uid_of(account))
        else:
            deleted |= await _delete_a_secret(cluster, random)
        if step % 50 == 49:
            await cluster.stop()
            cluster.start()
        await asyncio.sleep(random.random() * 3)
    return deleted


async def _delete_a_secret(cluster: PullSecretHarness, random: Random) -> set[str]:
    secrets = [secret for secret in await cluster.pull_secrets() if is_filled(secret)]
    if not secrets:
        return set()
    chosen = random.choice(secrets)
    try:
        await cluster.client.delete(SECRETS, ObjectKey.of(chosen), uid=uid_of(chosen))
    except NotFound:
        return set()
    return {uid_of(chosen)}


async def test_token_of_another_account_is_not_stored_where_the_server_ignores_the_uid(
    cluster: PullSecretHarness,
) -> None:
    await cluster.account("other")
    await cluster.account("builder")
    cluster.through = lambda transport: ReplacedAccountTransport(transport, "other")
    cluster.start()

    await cluster.listed("other")  # the token is its own

    filled = [secret for secret in await cluster.pull_secrets() if is_filled(secret)]
    assert {annotations_of(secret)[ANNOTATION_ACCOUNT] for secret in filled} == {"other"}
