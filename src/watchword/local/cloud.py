"""The emulated cloud of a fleet on this machine: a process beside it, and the tokens that prove who its pods are."""

import asyncio
import os
import shlex
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import orjson
from msgspec import Struct

from watchword.admin.errors import InvalidInput, NotReady
from watchword.api.meta import ObjectKey
from watchword.api.resources import NAMESPACES, SERVICE_ACCOUNTS
from watchword.apiserver.access.pki_directory import write_private
from watchword.kube.access_reviews import TokenReviewClient
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.local.trials import CLOUDS, AwsTrial

PATIENCE = 60.0  # seconds: the emulator imports much
GRACE = 0.8  # seconds: as long as the other parts of a fleet have to end
JOURNAL = "journal.jsonl"  # of the emulator: all that it needs to continue
TOKEN_SECONDS = 30 * 24 * 3600  # as long as a trial may run; each start makes new ones


class LocalCloud(Struct):
    """Runs the emulator of one driver in a folder, which keeps its state."""

    trial: AwsTrial
    folder: Path
    endpoint: str = ""
    reviewer: TokenReviewClient | None = None  # authenticates the tokens of the cloud at the hub
    _process: Process | None = None

    def emulator_command(self) -> list[str]:
        """Return the command of the emulator; `InvalidInput` when the environment names none."""
        command = shlex.split(os.environ.get(self.trial.variable, ""))
        if not command or shutil.which(command[0]) is None:
            raise InvalidInput(
                f"this driver is tried with an emulator of {self.trial.name}: set ${self.trial.variable} to its command"
            )
        return command

    async def start(self, hub: Path, clusters: list[Path]) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        write_private(self.folder / "accounts.json", orjson.dumps(self.trial.accounts(hub, clusters)))
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        log = self.folder / "emulator.log"
        with log.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *self.emulator_command(),
                str(self.folder),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                env=own,
                start_new_session=True,  # Ctrl-C ends it after the fleet
            )
        assert self._process.stdout is not None, "requested above"
        try:
            async with asyncio.timeout(PATIENCE):
                line = await self._process.stdout.readline()
        except TimeoutError as cause:
            raise NotReady(f"the emulator of {self.trial.name} does not answer: look at {log}") from cause
        if not line:
            raise NotReady(f"the emulator of {self.trial.name} has ended: {log} says why")
        told = orjson.loads(line)
        self.endpoint = told["endpoint"]
        self.reviewer = TokenReviewClient.connect(Path(told["webhook"]))

    async def prove_hub(self, client: Client) -> None:
        """Let the hub's controllers, which run in this process, use the cloud as their own ServiceAccount."""
        os.environ.update(self._variables("hub", self.trial.hub_settings))
        await self._write_token("hub", client, self.trial.hub_account)

    async def prove_agent(self, name: str, client: Client) -> None:
        await self._write_token(name, client, self.trial.agent_account)

    def agent_environment(self, name: str, number: int) -> Mapping[str, str]:
        """Return the variables of an agent, by the number of its cluster; nothing before the emulator runs."""
        return self._variables(name, self.trial.cluster_settings(number)) if self.endpoint else {}

    async def stop(self) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            async with asyncio.timeout(GRACE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _variables(self, name: str, settings: Mapping[str, str]) -> Mapping[str, str]:
        return self.trial.environment(self.endpoint, self.folder / f"{name}.token", settings)

    async def _write_token(self, name: str, client: Client, account: ObjectKey) -> None:
        for resource, key in ((NAMESPACES, ObjectKey.cluster(account.namespace)), (SERVICE_ACCOUNTS, account)):
            with suppress(AlreadyExists):
                await client.create(resource, resource.manifest(key))
        body = {"spec": {"audiences": [self.trial.audience], "expirationSeconds": TOKEN_SECONDS}}
        response = await client.request("POST", f"{SERVICE_ACCOUNTS.path(account)}/token", body=body)
        write_private(self.folder / f"{name}.token", orjson.loads(response.body)["status"]["token"].encode())


def read_cloud_files(root: Path) -> Mapping[str, bytes]:
    names = [f"{trial.name}/{JOURNAL}" for trial in CLOUDS.values()]
    return {name: (root / name).read_bytes() for name in names if (root / name).exists()}
