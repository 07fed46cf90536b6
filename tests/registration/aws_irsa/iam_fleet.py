"""A hub and agents as processes, on a control plane that knows clusters by IAM alone; AWS is the emulator."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.emulators.aws import AwsEmulator, EksCluster
from tests.emulators.aws.principals import AccessKey
from tests.helpers.fleet import BOOTSTRAP_USER, FleetHarness

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_KUBECONFIG_SECRET
from watchword.api.resources import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from watchword.api.yaml import load
from watchword.credentials.credential_secret import decode_data
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_CLUSTER_ARN, ClusterPair
from watchword.testing.process import ChildProcess

HUB_ACCOUNT, EDGE_ACCOUNT = "111122223333", "444455556666"
REGION = "us-west-2"
HUB = f"arn:aws:eks:{REGION}:{HUB_ACCOUNT}:cluster/fleet-hub"
PROVIDER = "kubernetes.default.svc"
ACCOUNT_NAME = "klusterlet-registration-sa"
AUDIENCE = "sts.amazonaws.com"
PROGRAM = [sys.executable, "-m", "watchword"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A cluster that can prove itself: a role in its account, and a ServiceAccount that may assume it."""

    name: str
    namespace: str
    pair: ClusterPair
    token: Path = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """What EKS sets for the pods of the ServiceAccount."""
        return {"AWS_ROLE_ARN": self.pair.managed_role, "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.token)}


@dataclass
class IamFleet:
    """What a test does with the hub and its clusters."""

    members: FleetHarness
    aws: AwsEmulator
    folder: Path
    processes: list[ChildProcess] = field(default_factory=list)

    @property
    def common(self) -> dict[str, str]:
        """What every process needs to find the emulator, and nothing of the user's own AWS configuration."""
        paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        own = {"PATH": paths, "HOME": str(self.folder), "AWS_ENDPOINT_URL": self.aws.endpoint_url}
        return own | {"AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": REGION}

    def start_hub(self, drivers: str = "aws-irsa", *more: str) -> None:
        """Run the hub's controllers, by default with the driver aws-irsa alone."""
        flags = [f"--enabled-registration-drivers={drivers}", f"{HUB_CLUSTER_ARN.flag}={HUB}", *more]
        key = self.aws.administrator(HUB_ACCOUNT)
        self._start("hub", [*flags, "--no-install", *self._own()], key.environment)

    def start_agent(
        self, edge: Edge, environment: dict[str, str] | None = None, addon_auth: str = "token"
    ) -> ChildProcess:
        """Run the agent of a cluster."""
        bootstrap = self.members.plane.kubeconfig_for(BOOTSTRAP_USER, (MANAGED_CLUSTER_GROUP,))
        flags = [
            f"--cluster-name={edge.name}",
            f"--namespace={edge.namespace}",
            f"--bootstrap-kubeconfig={bootstrap}",
            "--registration-auth=aws-irsa",
            f"--addon-kubeclient-registration-auth={addon_auth}",
            f"{HUB_CLUSTER_ARN.flag}={edge.pair.hub}",
            f"{MANAGED_CLUSTER_ARN.flag}={edge.pair.managed}",
        ]
        return self._start("agent", [*flags, *self._own()], edge.environment | (environment or {}))

    def _own(self) -> list[str]:
        return ["--disable-leader-election", f"--kubeconfig={self.members.plane.kubeconfig}", "--listen=127.0.0.1:0"]

    def _start(self, verb: str, flags: list[str], environment: dict[str, str]) -> ChildProcess:
        log = self.folder / f"{verb}-{len(self.processes)}.log"
        process = ChildProcess([*PROGRAM, verb, *flags], log, environment=self.common | environment)
        self.processes.append(process)
        return process

    async def prepare_edge(self) -> Edge:
        """Create what the administrator of a cluster creates before it joins."""
        name = self.members.name()
        client, namespace = self.members.client, f"agent-{name}"
        await client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace)))
        account = ObjectKey(namespace, ACCOUNT_NAME)
        await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(account))
        body = {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 3600}}
        response = await client.request("POST", f"{SERVICE_ACCOUNTS.path(account)}/token", body=body)
        token = self.folder / f"{name}.token"
        token.touch(mode=0o600)
        token.write_text(json.loads(response.body)["status"]["token"])
        managed = f"arn:aws:eks:{REGION}:{EDGE_ACCOUNT}:cluster/{name}"
        pair = ClusterPair.read({HUB_CLUSTER_ARN.flag: HUB, MANAGED_CLUSTER_ARN.flag: managed})
        self.aws.add_cluster(EksCluster(managed, self.members.plane.kubeconfig, oidc_provider=PROVIDER))
        await self._apply_prerequisites(pair, namespace)
        return Edge(name, namespace, pair, token)

    async def _apply_prerequisites(self, pair: ClusterPair, namespace: str) -> None:
        arns = [f"{HUB_CLUSTER_ARN.flag}={pair.hub}", f"{MANAGED_CLUSTER_ARN.flag}={pair.managed}"]
        rest = [f"--oidc-provider={PROVIDER}", f"--agent-namespace={namespace}", "--apply"]
        key = self.aws.administrator(EDGE_ACCOUNT)
        await self.run([*PROGRAM, "aws", "prerequisites", "cluster", *arns, *rest], key.environment)

    async def run(self, command: list[str], environment: dict[str, str]) -> str:
        """Run a program against the emulator; return what it printed."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        variables = inherited | self.common | environment
        done = await asyncio.to_thread(
            subprocess.run, command, env=variables, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def administer(self, *argv: str) -> str:
        """Run a command as the administrator of the hub and of its AWS account; return what it printed."""
        command = [*PROGRAM, *argv, f"--kubeconfig={self.members.plane.kubeconfig}"]
        return await self.run(command, self.aws.administrator(HUB_ACCOUNT).environment)

    async def secret_of(self, edge: Edge) -> dict[str, bytes]:
        """Return what the agent's Secret holds."""
        return decode_data(await self.members.client.get(SECRETS, ObjectKey(edge.namespace, HUB_KUBECONFIG_SECRET)))

    async def session_of(self, edge: Edge) -> AccessKey:
        """Return the credentials of the cluster's own role, obtained with the token of its ServiceAccount."""
        found = await self.ask(
            None,
            "assume_role_with_web_identity",
            RoleArn=edge.pair.managed_role,
            RoleSessionName="test-session",
            WebIdentityToken=edge.token.read_text(),
        )
        return self.aws.keys.issued[found["Credentials"]["AccessKeyId"]]

    async def ask(self, key: AccessKey | None, operation: str, **arguments: Any) -> Any:
        """Ask STS with real signatures."""
        import boto3  # noqa: PLC0415 - an extra
        from botocore import UNSIGNED  # noqa: PLC0415 - an extra
        from botocore.config import Config  # noqa: PLC0415 - an extra

        keys = {name.lower(): value for name, value in key.environment.items()} if key is not None else {}
        config = Config(retries={"total_max_attempts": 1}, signature_version=UNSIGNED if key is None else "v4")
        sts = boto3.client("sts", region_name=REGION, endpoint_url=self.aws.endpoint_url, config=config, **keys)
        return await asyncio.to_thread(getattr(sts, operation), **arguments)

    async def stop(self) -> None:
        """End the processes."""
        for process in reversed(self.processes):
            await asyncio.to_thread(process.stop)


def exec_of(kubeconfig: bytes) -> Object:
    """Return the exec entry of a kubeconfig."""
    entry: Object = load(kubeconfig)["users"][0]["user"]["exec"]
    return entry
