"""Image pull secrets of ServiceAccounts on a cluster, and the registries that they are for."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from random import Random

import orjson
from tests.simulation.administrator import quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.held_credentials import HeldCredential
from tests.simulation.incidents import Incident, incident
from tests.simulation.network import ProcessRun
from tests.simulation.pillar import Pillar
from tests.simulation.settings import DAY, HOUR, MINUTE
from tests.simulation.timing import PATIENCE, SIGNER, follow_options

from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import ADDON_NAMESPACE, AGENT_NAMESPACE, PULL_SECRETS_NAMESPACE
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT,
    ANNOTATION_PULL_SECRET,
    CONFIGURATION,
    DISABLED,
    DOCKERCFG_KEY,
    DOCKERCFG_TYPE,
    LABEL_PULL_SECRETS,
)
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from watchword.credentials.lifecycle import read_bound_token
from watchword.pullsecrets.process import PullSecretOptions, run_pull_secrets
from watchword.runtime.work_queue import Quarantine

BUILD = "build"
BUILDERS = ("builder", "tester")
REGISTRY = "registry.example:5000"
TAMPERED: tuple[Object, ...] = (
    {"data": {DOCKERCFG_KEY: "c2NyaWJibGU="}},
    {"data": {DOCKERCFG_KEY: base64.b64encode(b"{}").decode()}},
    {"metadata": {"annotations": {ANNOTATION_ACCOUNT: None}}},
    {"metadata": {"labels": {"kept": "by-hand"}}},
)
"""What people do to a pull secret."""


@dataclass
class PullSecrets(Pillar):
    """The controllers run on the cluster, for two ServiceAccounts in one namespace."""

    name = "pull-secrets"
    at_hub = False
    renewal_writes = (
        r"/namespaces/build/secrets/[^/]+ 200$",
        r"/serviceaccounts/[^/]+/token 201$",
    )
    routine_writes = (r"/namespaces/default/serviceaccounts/default/token 201$",)  # tells which key signs
    _registries: dict[str, str] = field(default_factory=dict)  # cluster → as configured now

    async def start(self) -> None:
        """Configure the controllers, create the accounts, and run the controllers."""
        for member in self.members:
            client = member.client()
            for name in (BUILD, PULL_SECRETS_NAMESPACE):
                await client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
            for name in ("default", ADDON_NAMESPACE, AGENT_NAMESPACE):
                patch = {"metadata": {"labels": {LABEL_PULL_SECRETS: DISABLED}}}
                await client.patch(NAMESPACES, ObjectKey.cluster(name), patch)
            key = ObjectKey("default", "default")  # whose token tells which key signs
            await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key))
            self._registries[member.name] = REGISTRY
            await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CONFIGURATION, data=self._settings(member)))
            self.fleet.add_process(
                f"{member.name}-pull-secrets",
                lambda run, member=member: self._run(run, member),  # type: ignore[misc]
                pillar=self.name,
                cluster=member.name,
            )
        await self.round()

    def _settings(self, member: SimulatedCluster) -> dict[str, str]:
        seconds = int(self.fleet.settings.shortest_life.total_seconds())
        return {"registries": self._registries[member.name], "token-lifetime-seconds": str(seconds)}

    async def _run(self, run: ProcessRun, member: SimulatedCluster) -> None:
        random = Random(member.random.random())
        client = member.over(member.plane.administrator().transport, member.to_cluster, run)
        options = PullSecretOptions(
            elect=False, signer_timing=SIGNER, follow=follow_options(random), quarantine=Quarantine(backoff=PATIENCE)
        )
        await run_pull_secrets(client, options, clock=member.clock, random=random)

    async def round(self) -> None:
        """Create the accounts, as often as they are gone."""
        for member in self.members:
            for name in BUILDERS:
                key = ObjectKey(BUILD, name)
                if member.stored.get(SERVICE_ACCOUNTS, key) is None:
                    await quietly(member.client().create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key)))

    async def step(self) -> None:
        """Pull with every account: its token is accepted, at every registry that is configured."""
        for member in self.members:
            for name in BUILDERS:
                account = member.stored.get(SERVICE_ACCOUNTS, ObjectKey(BUILD, name))
                if account is None:
                    continue
                content = self._content(member, account)
                wanted = set(self._registries[member.name].split())
                self.expect(
                    f"{name} has no pull secret for {sorted(wanted)}",
                    broken=set(content) != wanted,
                    cluster=member.name,
                )
                token = next(iter(content.values()), "")
                refused = bool(token) and await member.plane.accepts(token) is False
                self.expect(f"the pull secret of {name} is refused", broken=refused, cluster=member.name)

    def _content(self, member: SimulatedCluster, account: Object) -> dict[str, str]:
        """Return the token for each registry in the pull secret that an account lists."""
        name = annotations_of(account).get(ANNOTATION_PULL_SECRET, "")
        if {"name": name} not in (account.get("imagePullSecrets") or []):
            return {}
        return read_dockercfg(member.stored.get(SECRETS, ObjectKey(BUILD, name)))

    def held(self) -> Iterator[HeldCredential]:
        """Yield the tokens."""
        for member in self.members:
            for name in BUILDERS:
                account = member.stored.get(SERVICE_ACCOUNTS, ObjectKey(BUILD, name))
                content = {} if account is None else self._content(member, account)
                facts = read_bound_token(next(iter(content.values()), ""))
                if facts is not None:
                    what = f"pull secret {name}"
                    yield HeldCredential(what, member.name, member.name, facts.issued_at, facts.expires_at)

    def secret_values(self) -> Iterator[tuple[str, bytes]]:
        """Yield the tokens."""
        for member in self.members:
            for secret in self._secrets(member):
                for token in set(read_dockercfg(secret).values()):
                    yield f"token of a pull secret of {member.name}", token.encode()

    def _secrets(self, member: SimulatedCluster) -> list[Object]:
        return [obj for obj in member.stored.list(SECRETS, BUILD) if obj.get("type") == DOCKERCFG_TYPE]

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Each account has one pull secret, for the registries that are configured."""
        for member in self.members:
            for name in BUILDERS:
                account = member.stored.get(SERVICE_ACCOUNTS, ObjectKey(BUILD, name)) or {}
                if set(self._content(member, account)) != {REGISTRY}:
                    yield f"{member.name}: account {name} has no pull secret", member.name
                listed = account.get("imagePullSecrets") or []
                if len(listed) != 1:
                    yield f"{member.name}: account {name} lists {listed}", member.name

    def expected_secrets(self, member: SimulatedCluster) -> int:
        """Return one for each account."""
        return len(BUILDERS) if member in self.members else 0

    async def _configure(self, incident: Incident, hosts: str, **data: str) -> None:
        member = self.fleet.members[incident.target]
        self._registries[member.name] = hosts
        patch = {"data": {**self._settings(member), **data}}
        await self.admin.insist(lambda: member.client().patch(CONFIG_MAPS, CONFIGURATION, patch))

    @incident(2, MINUTE, DAY)
    async def registries_changed(self, incident: Incident) -> AsyncIterator[None]:
        """The registries change several times in a row, and back."""
        for number in range(1 + int(incident.amount * 8)):
            await self._configure(incident, f"{REGISTRY} mirror-{number}.example")
            await asyncio.sleep(4)
        yield
        await self._configure(incident, REGISTRY)

    @incident(1, MINUTE, DAY)
    async def configuration_damaged(self, incident: Incident) -> AsyncIterator[None]:
        """The configuration cannot be read, and is mended."""
        damage = incident.choose(({"registries": "https://x"}, {"token-lifetime-seconds": "soon"}, {"enabled": "?"}))
        await self._configure(incident, self._registries[incident.target], **damage)
        yield
        patch = {"data": {"enabled": None}}
        await self._configure(incident, REGISTRY)
        await quietly(self.fleet.members[incident.target].client().patch(CONFIG_MAPS, CONFIGURATION, patch))

    @incident(2, HOUR)
    async def pull_secret_changed(self, incident: Incident) -> AsyncIterator[None]:
        """A pull secret is changed or deleted."""
        member = self.fleet.members[incident.target]
        change = incident.choose((None, *TAMPERED))
        for secret in self._secrets(member)[:1]:
            key, client = ObjectKey.of(secret), member.client()
            await quietly(client.delete(SECRETS, key) if change is None else client.patch(SECRETS, key, change))
        yield

    @incident(1, HOUR)
    async def pull_secret_unlisted(self, incident: Incident) -> AsyncIterator[None]:
        """An account loses its list of pull secrets, or the note of its own."""
        change: Object = incident.choose(
            ({"imagePullSecrets": None}, {"metadata": {"annotations": {ANNOTATION_PULL_SECRET: None}}})
        )
        key = ObjectKey(BUILD, BUILDERS[0])
        await quietly(self.fleet.members[incident.target].client().patch(SERVICE_ACCOUNTS, key, change))
        yield

    @incident(2, MINUTE, HOUR)
    async def accounts_churned(self, incident: Incident) -> AsyncIterator[None]:
        """An account is deleted and created again, several times."""
        client, key = self.fleet.members[incident.target].client(), ObjectKey(BUILD, BUILDERS[1])
        for _ in range(1 + int(incident.amount * 5)):
            await quietly(client.delete(SERVICE_ACCOUNTS, key))
            await quietly(client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key)))
            await asyncio.sleep(incident.amount * 3)
        yield


def read_dockercfg(secret: Object | None) -> dict[str, str]:
    """Return the token for each registry in a pull secret; nothing when it cannot be read."""
    try:
        text = base64.b64decode(((secret or {}).get("data") or {}).get(DOCKERCFG_KEY, ""))
        return {
            name: base64.b64decode(row["auth"]).decode().partition(":")[2] for name, row in orjson.loads(text).items()
        }
    except (ValueError, KeyError):
        return {}
