"""The controllers of pull secrets over one control plane, run as a task of a test."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import orjson
import pytest
from tests.helpers.fleet import pass_through

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_ACCOUNT_UID,
    ANNOTATION_CREATED_BY,
    ANNOTATION_PULL_SECRET,
    ANNOTATION_TOKEN_SECRET,
    CREATED_BY_LEGACY_CONTROLLER,
    DOCKERCFG_KEY,
    DOCKERCFG_TYPE,
    SERVICE_ACCOUNT_TOKEN_TYPE,
)
from watchword.api.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from watchword.kube.client import Client
from watchword.kube.transport import Transport
from watchword.pki.jwt import read_unverified_claims, split_token
from watchword.pullsecrets.process import PullSecretOptions, run_pull_secrets
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import Metrics
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane

REGISTRY = "registry.example:5000"


def content_of(secret: Object) -> dict[str, Any]:
    """Return what `.dockercfg` says."""
    found: dict[str, Any] = orjson.loads(base64.b64decode(secret["data"][DOCKERCFG_KEY]))
    return found


def token_of(secret: Object) -> str:
    """Return the one token of a pull secret."""
    (auth,) = {row["auth"] for row in content_of(secret).values()}
    user, _, token = base64.b64decode(auth).decode().partition(":")
    assert user == "<token>"
    return token


def claims_of(secret: Object) -> dict[str, Any]:
    return read_unverified_claims(token_of(secret))


def key_id_of(secret: Object) -> str:
    return str(split_token(token_of(secret))[0]["kid"])


def is_filled(secret: Object | None) -> bool:
    return secret is not None and DOCKERCFG_KEY in secret.get("data", {}) and bool(content_of(secret))


def holds_another_token(first: Object) -> Callable[[Object | None], bool]:
    """Say that a pull secret holds another token than it did."""
    return lambda secret: secret is not None and is_filled(secret) and token_of(secret) != token_of(first)


def is_signed_by_another_key(first: Object) -> Callable[[Object | None], bool]:
    """Say that the token of a pull secret is of another signing key."""
    return lambda secret: secret is not None and is_filled(secret) and key_id_of(secret) != key_id_of(first)


def lists(name: str) -> Callable[[Object | None], bool]:
    """Say that a ServiceAccount lists a pull secret."""
    return lambda account: {"name": name} in ((account or {}).get("imagePullSecrets") or [])


@dataclass
class RecordingTransport:
    """Notes every request that changes something."""

    inner: Transport
    written: list[str]

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            self.written.append(f"{request.method} {request.path}")
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class PullSecretHarness:
    """What a test does with the controllers of pull secrets in a namespace of its own."""

    plane: Plane
    namespace: str
    options: PullSecretOptions
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # by the controllers
    through: Callable[[Transport], Transport] = pass_through  # for every request of controllers that are started
    clock: Clock | None = None  # of controllers that are started; None: that of the control plane

    @property
    def client(self) -> Client:
        return self.plane.client()

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def start(self, user: str | None = None, groups: Sequence[str] = (), **options: Any) -> asyncio.Task[None]:
        """Run the controllers as a user (None: the administrator), as a process would after a start."""
        client = self.plane.fresh_client(user, groups)
        work = run_pull_secrets(
            client.over(self.through(RecordingTransport(client.transport, self.written))),
            replace(self.options, **{"metrics": Metrics(), **options}),
            clock=self.clock or self.plane.clock,
            random=Random("pull secrets"),
        )
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    async def stop(self) -> None:
        """End the controllers as a killed process would; raises what they failed with before."""
        tasks, self.tasks = self.tasks, []
        failed = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in failed:
            task.result()

    async def configure(self, **data: str) -> None:
        """Write the ConfigMap; underscores stand for dashes."""
        rows = {name.replace("_", "-"): text for name, text in {"registries": REGISTRY, **data}.items()}
        manifest = CONFIG_MAPS.manifest(self.options.config_map, data=rows)
        found = await self.client.find(CONFIG_MAPS, self.options.config_map)
        if found is None:
            await self.client.create(CONFIG_MAPS, manifest)
        else:
            await self.client.update(CONFIG_MAPS, manifest)

    async def account(self, name: str, **fields: Any) -> Object:
        """Create a ServiceAccount."""
        return await self.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(self.key(name), **fields))

    async def listed(self, name: str, **wait: Any) -> Object:
        """Wait until an account lists its pull secret, and return the secret."""

        def is_listed(account: Object | None) -> bool:
            reference = annotations_of(account or {}).get(ANNOTATION_PULL_SECRET, "")
            return bool(reference) and lists(reference)(account)

        account = await eventually(self.client, SERVICE_ACCOUNTS, self.key(name), is_listed, **wait)
        return await self.client.get(SECRETS, self.key(annotations_of(account)[ANNOTATION_PULL_SECRET]))

    async def secret(self, name: str, predicate: Callable[[Object | None], bool] = is_filled, **wait: Any) -> Object:
        """Wait until a Secret is so."""
        return await eventually(self.client, SECRETS, self.key(name), predicate, **wait)

    def writes_to(self, name: str) -> list[str]:
        """Return what the controllers wrote to an object of the namespace."""
        return [row for row in self.written if f"/namespaces/{self.namespace}/" in row and f"/{name}" in row]

    async def pull_secrets(self) -> list[Object]:
        """Return every pull secret of the namespace."""
        found = await self.client.list(SECRETS, namespace=self.namespace, fields=f"type={DOCKERCFG_TYPE}")
        return found.items

    async def legacy_pair(self, account: Object) -> tuple[Object, Object]:
        """Make a token Secret and a pull secret as the legacy controller did, and let the account use them."""
        name = account["metadata"]["name"]
        annotations = {ANNOTATION_ACCOUNT_NAME: name, ANNOTATION_ACCOUNT_UID: uid_of(account)}
        token = await self.client.create(
            SECRETS,
            SECRETS.manifest(
                self.key(f"{name}-token-x7k2p"),
                metadata={"annotations": {**annotations, ANNOTATION_CREATED_BY: CREATED_BY_LEGACY_CONTROLLER}},
                type=SERVICE_ACCOUNT_TOKEN_TYPE,
            ),
        )
        owner = {"apiVersion": "v1", "kind": "Secret", "name": f"{name}-token-x7k2p", "uid": uid_of(token)}
        row = {"username": "serviceaccount", "password": "long-lived", "email": "serviceaccount@example.org"}
        auth = base64.b64encode(b"serviceaccount:long-lived").decode()
        secret = await self.client.create(
            SECRETS,
            SECRETS.manifest(
                self.key(f"{name}-dockercfg-b4d9q"),
                metadata={
                    "annotations": {**annotations, ANNOTATION_TOKEN_SECRET: f"{name}-token-x7k2p"},
                    "ownerReferences": [owner],
                },
                type=DOCKERCFG_TYPE,
                data={DOCKERCFG_KEY: base64.b64encode(orjson.dumps({REGISTRY: {**row, "auth": auth}})).decode()},
            ),
        )
        both = [{"name": secret["metadata"]["name"]}, {"name": token["metadata"]["name"]}]
        patch = {"imagePullSecrets": both[:1], "secrets": both}
        await self.client.patch(SERVICE_ACCOUNTS, ObjectKey.of(account), patch)
        return token, secret


@asynccontextmanager
async def open_pull_secrets(plane: Plane) -> AsyncIterator[PullSecretHarness]:
    """Prepare a namespace and a ConfigMap of this test's own; what runs ends with the context."""
    await plane.controllers("garbage-collector-controller", "serviceaccount-controller")
    await eventually(plane.client(), SERVICE_ACCOUNTS, ObjectKey("default", "default"))
    namespace = await plane.namespace("pull")
    options = PullSecretOptions(elect=False, config_map=ObjectKey(namespace, "pull-secrets"))
    harness = PullSecretHarness(plane, namespace, options)
    await harness.configure()
    try:
        yield harness
    finally:
        await harness.stop()


@pytest.fixture
async def cluster(plane: Plane) -> AsyncIterator[PullSecretHarness]:
    async with open_pull_secrets(plane) as found:
        yield found


@pytest.fixture
async def private_cluster(private_plane: Plane) -> AsyncIterator[PullSecretHarness]:
    async with open_pull_secrets(private_plane) as found:
        yield found
