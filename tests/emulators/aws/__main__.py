"""`python -m tests.emulators.aws FOLDER`: AWS for a fleet on this machine, until the standard input ends.

`accounts.json` in the folder names hub and clusters. The roles that administrators create before a cluster joins are
created. What is changed is kept in the folder. One line on the standard output says that it serves, and where.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import SystemRandom

import msgspec
from msgspec import Struct
from tests.emulators.aws.emulator import ISSUER, AwsEmulator, EksCluster
from tests.emulators.aws.journal import Journal

from watchword.registration.aws_irsa.boto import BotoApi
from watchword.registration.aws_irsa.documents import (
    AgentAccounts,
    EksClusterArn,
    IamRole,
    identity_creator_role,
    managed_cluster_role,
)
from watchword.registration.aws_irsa.iam import RoleWriter
from watchword.runtime.event_loop import run
from watchword.testing.credentials import write_private


class ClusterEntry(Struct, frozen=True):
    """A cluster and the kubeconfig of its administrator."""

    arn: str
    kubeconfig: str


class Accounts(Struct, frozen=True):
    """The content of `accounts.json`."""

    hub: ClusterEntry
    clusters: tuple[ClusterEntry, ...]

    @property
    def roles(self) -> list[IamRole]:
        """The roles that administrators create."""
        hub = EksClusterArn.parse(self.hub.arn)
        managed = [EksClusterArn.parse(each.arn) for each in self.clusters]
        agents = [managed_cluster_role(hub, each, ISSUER, AgentAccounts()) for each in managed]
        return [identity_creator_role(hub, ISSUER, extended=True), *agents]


async def serve(folder: Path) -> None:
    """Serve until the standard input ends."""
    accounts = msgspec.json.decode((folder / "accounts.json").read_bytes(), type=Accounts)
    async with AwsEmulator(journal=Journal(folder / "journal.jsonl")) as aws:
        for entry in (accounts.hub, *accounts.clusters):
            aws.add_cluster(EksCluster(entry.arn, Path(entry.kubeconfig)))
        await aws.replay()
        for role in accounts.roles:
            await RoleWriter(administrator_api(aws, role.account), SystemRandom()).apply(role)
        webhook = folder / "webhook.kubeconfig"
        write_private(webhook, aws.webhook_kubeconfig(accounts.hub.arn))
        ready = msgspec.json.encode({"endpoint": aws.endpoint_url, "webhook": str(webhook)})
        sys.stdout.write(ready.decode() + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


def administrator_api(aws: AwsEmulator, account: str) -> BotoApi:
    """Return a connection of an administrator of an account."""
    key = aws.administrator(account)
    keys = {name.lower(): value for name, value in key.environment.items()}
    return BotoApi("us-west-2", {"endpoint_url": aws.endpoint_url, **keys})


if __name__ == "__main__":
    run(serve(Path(sys.argv[1])))
