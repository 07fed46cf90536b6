"""Roles and access entries over the wire: boto3 against an emulator that verifies signatures and policies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio
from tests.registration.aws_irsa.aws_fleet import HUB, arn_of

pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'watchword[aws]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'watchword[aws-emulator]'")

from tests.emulators.aws import AwsEmulator, EksCluster
from tests.emulators.aws.eks import EksClusterState
from tests.emulators.aws.journal import Journal

from watchword.api.sensitive import Sensitive
from watchword.registration.aws_irsa.boto import BotoApi
from watchword.registration.aws_irsa.documents import (
    AgentAccounts,
    IamRole,
    identity_creator_role,
    managed_cluster_role,
)
from watchword.registration.aws_irsa.errors import AwsRefused
from watchword.registration.aws_irsa.iam import RoleChange, RoleWriter
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.registration.aws_irsa.role_mapping import AccessEntries

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]

IDENTITY = ClusterIdentity("edge-1", "uid", HUB, arn_of("edge-1"))
PROVIDER = "oidc.example.com"


@dataclass
class Account:
    """The hub's account, with the roles that exist before a cluster is accepted."""

    aws: AwsEmulator
    state: EksClusterState

    def api(self, account: str = HUB.account) -> BotoApi:
        """Return a connection as an administrator of an account."""
        key = self.aws.administrator(account)
        return self.connect(key.id, key.secret, key.session_token)

    def connect(self, key_id: str, secret: Sensitive[str], token: Sensitive[str]) -> BotoApi:
        options = {
            "endpoint_url": self.aws.endpoint_url,
            "aws_access_key_id": key_id,
            "aws_secret_access_key": secret.reveal(),
            "aws_session_token": token.reveal() or None,
        }
        return BotoApi(HUB.region, options)

    async def as_creator(self, *, extended: bool) -> BotoApi:
        """Return a connection with the rights of the identity creator and no others."""
        wanted = identity_creator_role(HUB, PROVIDER, extended=extended)
        trust = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::'
        trust += f'{HUB.account}:root"}}, "Action": "sts:AssumeRole"}}]}}'
        role = IamRole(wanted.partition, wanted.account, wanted.name, wanted.access_policy, trust)
        await RoleWriter(self.api(), Random(1)).apply(role)
        found = await self.api().call("sts", "assume_role", RoleArn=role.arn, RoleSessionName="hub")
        given = found["Credentials"]
        secret, token = Sensitive(given["SecretAccessKey"]), Sensitive(given["SessionToken"])
        return self.connect(given["AccessKeyId"], secret, token)


@pytest_asyncio.fixture
async def account() -> AsyncIterator[Account]:
    async with AwsEmulator() as aws:
        found = Account(aws, aws.add_cluster(EksCluster(str(HUB))))
        agent = managed_cluster_role(HUB, IDENTITY.managed, PROVIDER, AgentAccounts())
        await RoleWriter(found.api(IDENTITY.managed.account), Random(1)).apply(agent)
        yield found


async def test_extended_creator_makes_repairs_and_deletes_an_identity(account: Account) -> None:
    api = await account.as_creator(extended=True)
    roles, entries = RoleWriter(api, Random(1)), AccessEntries(api, HUB, Random(1))

    assert await roles.create(IDENTITY.role) == (RoleChange.CREATED, RoleChange.ACCESS)
    assert await entries.are_available()
    assert await entries.create(IDENTITY)
    assert (await roles.create(IDENTITY.role), await entries.create(IDENTITY)) == ((), False)
    account.state.entries[IDENTITY.role.arn]["kubernetesGroups"] = ["admins"]
    assert await entries.repair(IDENTITY)
    assert await entries.is_correct(IDENTITY)

    await entries.delete(IDENTITY)
    await roles.delete(IDENTITY.role)
    await entries.delete(IDENTITY)
    await roles.delete(IDENTITY.role)
    assert (account.state.entries, await roles.read(IDENTITY.role.name)) == ({}, None)


async def test_creator_of_the_design_cannot_make_access_entries(account: Account) -> None:
    entries = AccessEntries(await account.as_creator(extended=False), HUB, Random(1))

    with pytest.raises(AwsRefused, match="use AWS credentials that are allowed to do this"):
        await entries.are_available()


async def test_role_that_eks_does_not_see_yet_is_waited_for(account: Account) -> None:
    account.aws.hide_new_roles(timedelta(seconds=2))
    api = account.api()
    await RoleWriter(api, Random(1)).create(IDENTITY.role)

    assert await AccessEntries(api, HUB, Random(1)).create(IDENTITY)


@pytest.mark.slow
async def test_next_process_continues_with_what_was_changed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    agent = managed_cluster_role(HUB, IDENTITY.managed, PROVIDER, AgentAccounts())
    async with AwsEmulator(journal=journal) as aws:
        first = Account(aws, aws.add_cluster(EksCluster(str(HUB))))
        await RoleWriter(first.api(IDENTITY.managed.account), Random(1)).apply(agent)
        await RoleWriter(first.api(), Random(1)).create(IDENTITY.role)
        await AccessEntries(first.api(), HUB, Random(1)).create(IDENTITY)

    async with AwsEmulator(journal=journal) as aws:
        again = Account(aws, aws.add_cluster(EksCluster(str(HUB))))
        await aws.replay()

        assert await RoleWriter(again.api(IDENTITY.managed.account), Random(1)).find_differences(agent) == ()
        assert await RoleWriter(again.api(), Random(1)).find_differences(IDENTITY.role) == ()
        assert await AccessEntries(again.api(), HUB, Random(1)).is_correct(IDENTITY)
    assert "Signature" not in journal.path.read_text()


async def test_role_is_not_made_before_the_role_of_the_agent(account: Account) -> None:
    other = ClusterIdentity("edge-2", "uid", HUB, arn_of("edge-2"))

    with pytest.raises(AwsRefused) as refusal:
        await RoleWriter(account.api(), Random(1)).create(other.role)

    assert refusal.value.code == "MalformedPolicyDocument"
