"""Wherever the controllers are killed, no Secret is leaked, no empty one is listed, and the next process finishes."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest
from tests.pullsecrets.harness import PullSecretHarness, is_filled

from watchword.api.http import Request, Response
from watchword.api.meta import Object, annotations_of
from watchword.api.pull_secrets import ANNOTATION_ACCOUNT, ANNOTATION_PULL_SECRET, DISABLED, LABEL_PULL_SECRETS
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport
from watchword.testing.eventually import eventually, eventually_all

CREATION = ("POST secrets", "POST token", "PATCH secrets", "PATCH serviceaccounts")
REMOVAL = ("PATCH serviceaccounts", "DELETE secrets")


@dataclass
class MortalTransport:
    """The connection of a process that is killed after so many writes for one account."""

    inner: Transport
    account: str
    writes_left: int
    written: list[str] = field(default_factory=list)
    killed: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, request: Request) -> Response:
        if self.killed.is_set():
            raise Unreachable("the process is dead", maybe_processed=False)
        response = await self.inner.send(request)
        if request.method != "GET" and self._concerns_the_account(request):
            self.written.append(f"{request.method} {_kind_in(request.path)}")
            self.writes_left -= 1
        if self.writes_left == 0:
            self.killed.set()
            raise Unreachable("the process died before it heard the answer")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()

    def _concerns_the_account(self, request: Request) -> bool:
        return self.account in request.path or (
            request.path.endswith("/secrets") and self.account.encode() in (request.body or b"")
        )


def _kind_in(path: str) -> str:
    parts = path.removeprefix("/api/v1/namespaces/").split("/")[1:]
    return parts[-1] if len(parts) == 3 else parts[0]


def start_mortal(cluster: PullSecretHarness, account: str, *, writes: int) -> MortalTransport:
    """Run controllers that are killed after so many writes for an account; those after them live."""
    made: list[MortalTransport] = []

    def through(transport: Transport) -> Transport:
        made.append(MortalTransport(transport, account, writes))
        return made[-1]

    before, cluster.through = cluster.through, through
    cluster.start()
    cluster.through = before
    return made[0]


async def state_of(cluster: PullSecretHarness, account: str) -> tuple[Object, list[Object]]:
    """Return an account as it is now, and every pull secret that names it."""
    secrets = [row for row in await cluster.pull_secrets() if annotations_of(row).get(ANNOTATION_ACCOUNT) == account]
    return await cluster.client.get(SERVICE_ACCOUNTS, cluster.key(account)), secrets


async def test_new_account_costs_four_writes(cluster: PullSecretHarness) -> None:
    transport = start_mortal(cluster, "builder", writes=100)
    await cluster.account("builder")
    await cluster.listed("builder")
    await cluster.account("second")
    await cluster.listed("second")  # so everything about the first one was looked at again

    assert tuple(transport.written) == CREATION


@pytest.mark.parametrize("writes", range(1, len(CREATION) + 1))
async def test_process_killed_while_it_serves_a_new_account_is_continued_by_the_next(
    cluster: PullSecretHarness, writes: int
) -> None:
    transport = start_mortal(cluster, "builder", writes=writes)
    await cluster.account("builder")
    await transport.killed.wait()
    await cluster.stop()

    account, secrets = await state_of(cluster, "builder")
    names = {row["metadata"]["name"] for row in secrets if is_filled(row)}
    assert {row["name"] for row in account.get("imagePullSecrets") or ()} <= names, "an empty secret is listed"

    cluster.start()
    secret = await cluster.listed("builder")

    account, secrets = await state_of(cluster, "builder")
    assert [row["metadata"]["uid"] for row in secrets] == [secret["metadata"]["uid"]]
    assert is_filled(secret)
    assert annotations_of(account)[ANNOTATION_PULL_SECRET] == secret["metadata"]["name"]


@pytest.mark.parametrize("writes", range(1, len(CREATION) + 1))
async def test_account_deleted_while_no_process_runs_leaves_no_secret(cluster: PullSecretHarness, writes: int) -> None:
    transport = start_mortal(cluster, "builder", writes=writes)
    await cluster.account("builder")
    await transport.killed.wait()
    await cluster.stop()

    await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key("builder"))

    await _no_secret_is_left(cluster, "builder")


@pytest.mark.parametrize("writes", range(1, len(CREATION) + 1))
async def test_account_opted_out_while_no_process_runs_is_cleaned_up_by_the_next(
    cluster: PullSecretHarness, writes: int
) -> None:
    transport = start_mortal(cluster, "builder", writes=writes)
    await cluster.account("builder")
    await transport.killed.wait()
    await cluster.stop()

    await _opt_out(cluster, "builder")
    cluster.start()

    await _no_secret_is_left(cluster, "builder")
    await eventually(cluster.client, SERVICE_ACCOUNTS, cluster.key("builder"), _has_no_reference)


@pytest.mark.parametrize("writes", range(1, len(REMOVAL) + 1))
async def test_process_killed_while_it_cleans_up_is_continued_by_the_next(
    cluster: PullSecretHarness, writes: int
) -> None:
    transport = start_mortal(cluster, "builder", writes=len(CREATION) + writes)
    await cluster.account("builder")
    await cluster.listed("builder")
    await _opt_out(cluster, "builder")
    await transport.killed.wait()
    await cluster.stop()

    account, secrets = await state_of(cluster, "builder")
    assert secrets or _has_no_reference(account), "a secret that is gone is listed"

    cluster.start()

    await _no_secret_is_left(cluster, "builder")
    await eventually(cluster.client, SERVICE_ACCOUNTS, cluster.key("builder"), _has_no_reference)


def _has_no_reference(account: Object | None) -> bool:
    found = account or {}
    return not found.get("imagePullSecrets") and ANNOTATION_PULL_SECRET not in annotations_of(found)


async def _opt_out(cluster: PullSecretHarness, account: str) -> None:
    labels = {"metadata": {"labels": {LABEL_PULL_SECRETS: DISABLED}}}
    await cluster.client.patch(SERVICE_ACCOUNTS, cluster.key(account), labels)


async def _no_secret_is_left(cluster: PullSecretHarness, account: str) -> None:
    await eventually_all(
        cluster.client,
        SECRETS,
        lambda found: all(annotations_of(row).get(ANNOTATION_ACCOUNT) != account for row in found.values()),
        namespace=cluster.namespace,
    )
