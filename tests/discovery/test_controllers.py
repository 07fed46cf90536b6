"""Signer and cleaner in virtual time: a day passes in no time at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from tests.helpers.memory_api import MemoryApi

from watchword.api.bootstrap import CLUSTER_INFO, token_secret_key
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.discovery.cluster_info import ROOT_CA, ClusterAuthorities, ClusterInfo, write_cluster_info
from watchword.discovery.controllers import SCOPES, discovery_controllers
from watchword.discovery.token_secret import TokenRecord, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.runtime.cache import Cache
from watchword.runtime.controller import Controller
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.metrics import Metrics
from watchword.testing.virtual_time import EPOCH, VirtualClock

CA, OTHER_CA = (Authority.make(name, now=EPOCH).certificate for name in ("own", "other"))
INFO = ClusterInfo(("https://hub:6443",), (CA,))
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
INFO_PATH = CONFIG_MAPS.path(CLUSTER_INFO)


class AnnouncingRecorder(EventRecorder):
    """Keeps the warnings that are recorded."""

    announced: list[str]

    def warning(self, obj: Mapping[str, Any], reason: str, note: str, *, action: str = "") -> None:
        del action
        self.announced.append(f"{ObjectKey.of(obj)} {reason} {note}")


@dataclass
class ControllerHarness:
    """An API server in memory, its clock, and what was announced."""

    api: MemoryApi = field(default_factory=MemoryApi)
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(asyncio.get_running_loop()))
    announced: list[str] = field(default_factory=list)

    def publish(self, info: ClusterInfo = INFO) -> None:
        data = {**self.signatures(), "kubeconfig": write_cluster_info(info)}
        self.api.put(INFO_PATH, CONFIG_MAPS.manifest(CLUSTER_INFO, data=data))

    def add_token(self, ttl: timedelta | None) -> BootstrapToken:
        token = BootstrapToken.generate()
        expires = None if ttl is None else self.clock.now() + ttl
        self.api.put(SECRETS.path(token_secret_key(token.id)), write_token_secret(TokenRecord(token, expires=expires)))
        return token

    def signatures(self) -> dict[str, str]:
        found: Object = self.api.objects.get(INFO_PATH) or {}
        return {k: v for k, v in (found.get("data") or {}).items() if k.startswith("jws-")}

    def exists(self, token: BootstrapToken) -> bool:
        return SECRETS.path(token_secret_key(token.id)) in self.api.objects

    def writes(self) -> list[str]:
        return [method for method, _ in self.api.requests if method != "GET"]

    @asynccontextmanager
    async def controllers(self, ca: bytes = CA.pem) -> AsyncIterator[None]:
        client = Client.from_handler(self.api.handle)
        cache = Cache.of(client)
        for resource, scope in SCOPES:
            cache.informer(resource, scope)
        events = AnnouncingRecorder(client, "test", "test", clock=self.clock, random=Random(1), counts=Metrics())
        events.announced = self.announced
        specs = discovery_controllers(cache, client, self.clock, events, authorities=ClusterAuthorities(ca))
        running = [Controller(spec, metrics=Metrics(), random=Random(1)) for spec in specs]
        for controller in running:
            controller.subscribe({"": cache})
        tasks = [asyncio.ensure_future(cache.run()), *(asyncio.ensure_future(one.run()) for one in running)]
        try:
            await cache.sync()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_token_ends_at_its_very_second_and_not_before() -> None:
    world = ControllerHarness()
    world.publish()
    token, lasting = world.add_token(DAY), world.add_token(None)
    async with world.controllers():
        await asyncio.sleep((DAY - SECOND).total_seconds())
        assert len(world.signatures()) == 2
        assert world.exists(token)
        await asyncio.sleep(2)
        assert list(world.signatures()) == [f"jws-kubeconfig-{lasting.id}"]
        assert not world.exists(token)
        assert world.exists(lasting)


async def test_five_hundred_tokens_cost_one_write_and_go_together() -> None:
    world = ControllerHarness()
    world.publish()
    tokens = [world.add_token(DAY) for _ in range(500)]
    async with world.controllers():
        await asyncio.sleep(1)
        assert len(world.signatures()) == 500
        assert world.writes() == ["PATCH"]
        await asyncio.sleep(DAY.total_seconds())
        assert not any(world.exists(token) for token in tokens)
        assert world.signatures() == {}
        assert world.writes().count("DELETE") == 500
        assert len(world.writes()) <= 503


async def test_a_foreign_cluster_info_is_announced_once_and_forgiven_when_restored() -> None:
    world = ControllerHarness()
    world.publish()
    world.add_token(None)
    async with world.controllers():
        await asyncio.sleep(1)
        world.publish(ClusterInfo(INFO.endpoints, (OTHER_CA,)))
        await asyncio.sleep(3600)
        assert world.signatures() == {}
        assert len(world.announced) == 1
        assert "kube-public/cluster-info SigningRefused" in world.announced[0]
        world.publish()
        await asyncio.sleep(1)
        assert len(world.signatures()) == 1


async def test_the_published_root_authority_is_enough_to_sign() -> None:
    world = ControllerHarness()
    world.publish()
    world.add_token(None)
    async with world.controllers(ca=b""):
        await asyncio.sleep(1)
        assert world.signatures() == {}
        world.api.put(CONFIG_MAPS.path(ROOT_CA), CONFIG_MAPS.manifest(ROOT_CA, data={"ca.crt": CA.pem.decode()}))
        await asyncio.sleep(1)
        assert len(world.signatures()) == 1


async def test_another_secret_under_an_expired_tokens_name_is_not_deleted() -> None:
    world = ControllerHarness()
    token = world.add_token(SECOND)
    path = SECRETS.path(token_secret_key(token.id))
    async with world.controllers():
        world.api.objects[path]["metadata"]["uid"] = "another"
        await asyncio.sleep(5)
        assert world.exists(token)
