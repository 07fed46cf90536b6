"""The sample add-on on a fleet of this machine: enabled where both ways to a credential can be seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import orjson

from watchword.addons.process import run_addon
from watchword.addons.sample.agent import SampleAgent
from watchword.addons.sample.hub import NAME, SAMPLE, SECRET
from watchword.agent.kubeconfig_connector import KubeconfigConnector
from watchword.agent.secret_data import KUBECONFIG, decode_data
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, NAMESPACES, SECRETS
from watchword.drivers.interface import SecretData
from watchword.fleet.inventory import judge_addon
from watchword.fleet.local.member import Member
from watchword.fleet.local.site import Site
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, ConfigError
from watchword.kube.watch import Change, follow

EVERY = timedelta(seconds=20)
ENABLED_ON = 2  # the first clusters: one for each driver


async def start_sample(site: Site) -> list[Member]:
    """Run the add-on's hub side and its agents, and enable it on the first clusters; return those."""
    members = site.clusters[:ENABLED_ON]
    site.crew.start("sample add-on", lambda stop: run_addon(site.hub.client, SAMPLE, clock=site.clock, stop=stop))
    for member in members:
        with suppress(AlreadyExists):  # a fleet that was up before
            await member.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ADDON_NAMESPACE)))
        with suppress(AlreadyExists):
            key = ObjectKey(member.name, NAME)
            await site.hub.client.create(MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTER_ADDONS.manifest(key, spec={}))
        site.crew.start(f"sample add-on of {member.name}", SampleWorker(member, site).work)
    return members


def is_served(addon: Object | None) -> bool:
    """Whether an add-on has its credential, and shows that it works with it."""
    if addon is None:
        return False
    return judge_addon(addon).credential == "yes" and is_true(addon, ConditionType.ADDON_AVAILABLE)


@dataclass(frozen=True, slots=True)
class SampleWorker:
    """The add-on's agent on one cluster, working with whatever credential its Secret holds."""

    member: Member
    site: Site

    async def work(self, stop: asyncio.Event) -> None:
        """Report until asked to stop; a new credential is taken up at once."""
        task: asyncio.Task[None] | None = None
        try:
            async for data in self._credentials(stop):
                if task is not None:
                    task.cancel()
                task = asyncio.create_task(self._report(data, stop))
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _report(self, data: SecretData, stop: asyncio.Event) -> None:
        async with _client_with(data) as hub:
            agent = SampleAgent(hub, self.member.name, self.site.clock, self.member.client, ADDON_NAMESPACE)
            await agent.run(EVERY, stop)

    async def _credentials(self, stop: asyncio.Event) -> AsyncIterator[SecretData]:
        facts = follow(self.member.client, SECRETS, namespace=ADDON_NAMESPACE, fields=f"metadata.name={SECRET}")
        last: SecretData = {}
        async with aclosing(facts):
            async for fact in _until(stop, facts):
                found = [fact.raw] if isinstance(fact, Change) else list(getattr(fact, "items", ()))
                data = decode_data(orjson.loads(found[0])) if found else {}
                if KUBECONFIG in data and ("token" in data or "tls.crt" in data) and data != last:
                    last = data
                    yield data


async def _until(stop: asyncio.Event, facts: AsyncIterator[object]) -> AsyncIterator[object]:
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            coming = asyncio.ensure_future(anext(facts))
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
                return
            yield coming.result()
    finally:
        stopping.cancel()


@asynccontextmanager
async def _client_with(data: SecretData) -> AsyncIterator[Client]:
    with suppress(ConfigError):  # half a credential: the next change completes it
        client = Client(KubeconfigConnector(None).own(data), user_agent="watchword-sample-addon")
        try:
            yield client
        finally:
            await client.close()
