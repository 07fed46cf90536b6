"""Programs that use the tokens: they see every change, and keep a client that outlives each rotation."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from tests.accounts.cluster_profiles import install_cluster_profiles
from tests.accounts.fleet import AccountsFleet

from watchword.accounts.clients import ClusterClients, TransportFactory
from watchword.accounts.exec_credential import EXEC_INFO, exec_credential, read_exec_info
from watchword.accounts.exports import PROVIDER, ArgoExporter, ClusterProfileExporter, ExportRefused, run_export
from watchword.accounts.tokens import (
    AccountsError,
    AccountToken,
    NoToken,
    TokenAvailable,
    TokenChange,
    TokenGone,
    find_token,
    watch_tokens,
)
from watchword.api.accounts import copy_name
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import (
    CLUSTER_PROFILES,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.kube.access_reviews import who_am_i
from watchword.kube.credentials import CredentialSource
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Unreachable
from watchword.kube.exec_plugin import ExecPlugin, parse_exec_credential
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.transport import InProcessTransport, Transport
from watchword.runtime.event_loop import running
from watchword.testing.builders import a_secret
from watchword.testing.eventually import eventually, is_gone

MSA = MANAGED_SERVICE_ACCOUNTS
ROBOT = ObjectKey("team", "robot")


@dataclass
class TokenTransport:
    """Reaches the plane without a socket as an HTTPS transport would: one more try after a 401."""

    local: InProcessTransport
    source: CredentialSource

    async def send(self, request: Request) -> Response:
        credential = await self.source.current()
        response = await self.local.with_identity(authorization=credential.authorization).send(request)
        if response.status != 401:
            return response
        other = await self.source.renewed(credential)
        if other is None:
            return response
        return await self.local.with_identity(authorization=other.authorization).send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        credential = await self.source.current()
        async with self.local.with_identity(authorization=credential.authorization).stream(request) as response:
            yield response

    async def close(self) -> None:
        return None


def transports(fleet: AccountsFleet) -> TransportFactory:
    local = fleet.client.transport
    if isinstance(local, InProcessTransport):
        return lambda _, source: TokenTransport(local, source)
    return HttpsTransport


async def a_fleet_account(fleet: AccountsFleet) -> tuple[str, list[str]]:
    name = fleet.plane.unique("fleet")
    namespace = await fleet.bound_namespace(name)
    members = [await fleet.cluster(labels={"set": name}) for _ in range(2)]
    await fleet.declare(namespace, "robot")
    for member in members:
        await fleet.secret(ObjectKey(namespace, copy_name(member.name, "robot")))
    return namespace, [member.name for member in members]


async def test_every_token_and_every_change_is_seen(fleet: AccountsFleet) -> None:
    namespace, names = await a_fleet_account(fleet)
    async with aclosing(watch_tokens(fleet.client, "robot", namespace=namespace)) as changes:
        found = [await anext(changes), await anext(changes)]
        assert {change.cluster for change in found if isinstance(change, TokenAvailable)} == set(names)

        patch = {"metadata": {"labels": {"set": "other"}}}
        await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(names[0]), patch)
        assert await anext(changes) == TokenGone(names[0])


async def test_tokens_in_the_namespaces_of_clusters_are_seen_once(fleet: AccountsFleet) -> None:
    _, names = await a_fleet_account(fleet)
    other = await fleet.cluster()
    await fleet.declare(other.name, "unrelated")
    await fleet.until(ObjectKey(other.name, "unrelated"))
    async with aclosing(watch_tokens(fleet.client, "robot")) as changes:
        seen = [(await anext(changes)).cluster for _ in names]
    assert sorted(seen) == sorted(names)


async def test_client_of_a_cluster_outlives_rotation_without_a_refused_request(fleet: AccountsFleet) -> None:
    namespace, names = await a_fleet_account(fleet)
    async with ClusterClients(fleet.client, "robot", namespace=namespace, make_transport=transports(fleet)) as clusters:
        client = await clusters.client(names[0])
        before = await find_token(fleet.client, "robot", names[0], namespace=namespace)
        assert before is not None
        member = fleet.members[names[0]]
        for _ in range(3):
            await fleet.client.delete(SERVICE_ACCOUNTS, fleet.local(member, "robot"))  # refuses the old token at once
            me = await who_am_i(client)
            assert me.username == f"system:serviceaccount:{member.namespace}:robot"
            await eventually(fleet.client, SERVICE_ACCOUNTS, fleet.local(member, "robot"))
        assert await find_token(fleet.client, "robot", names[0], namespace=namespace) != before
        assert clusters.clusters == sorted(names)


async def test_client_of_a_cluster_without_a_token_is_refused_with_advice(fleet: AccountsFleet) -> None:
    async with ClusterClients(fleet.client, "robot", make_transport=transports(fleet)) as clusters:
        with pytest.raises(NoToken, match="watchword serviceaccount show robot -n nowhere"):
            await clusters.client("nowhere", within=0.1)


def a_token(**changes: object) -> AccountToken:
    fields = {
        "cluster": "edge",
        "account": "robot",
        "token": Sensitive("t.t.t"),
        "ca": b"ca",
        "server": "https://e:6443",
    }
    return AccountToken(**{**fields, "expires_at": datetime(2030, 1, 1, tzinfo=UTC), **changes})  # type: ignore[arg-type]


def test_exec_credential_tells_when_it_expires() -> None:
    printed = orjson.dumps(exec_credential(a_token().token, a_token().expires_at))
    credential, expires = parse_exec_credential(printed, ExecPlugin("watchword"))
    assert expires == datetime(2030, 1, 1, tzinfo=UTC)
    assert credential.authorization == Sensitive("Bearer t.t.t")


def an_exec_info(api_version: str = "client.authentication.k8s.io/v1", **cluster: object) -> dict[str, str]:
    info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"cluster": cluster, "interactive": False}}
    return {EXEC_INFO: orjson.dumps(info).decode()}


def test_cluster_is_read_from_what_the_client_tells_the_plugin() -> None:
    info = an_exec_info(server="https://e", config={"clusterName": "edge"})
    assert read_exec_info(info) == ("client.authentication.k8s.io/v1", "edge")


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({EXEC_INFO: "{"}, id="not JSON"),
        pytest.param(an_exec_info("client.authentication.k8s.io/v9"), id="unknown version"),
    ],
)
def test_what_a_client_tells_wrongly_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(AccountsError):
        read_exec_info(environment)


async def test_argo_cd_gets_the_newest_token_of_every_cluster(fleet: AccountsFleet) -> None:
    namespace, names = await a_fleet_account(fleet)
    argo = await fleet.plane.namespace("argocd")
    work = run_export(
        fleet.client, "robot", ArgoExporter(fleet.client, ObjectKey(namespace, "robot"), argo), namespace=namespace
    )
    key = ObjectKey(argo, f"cluster-{names[0]}")

    async with running(work, "export"):
        await eventually(fleet.client, SECRETS, key)
        await fleet.client.patch(MSA, ObjectKey(namespace, "robot"), {"spec": {"rotation": {"validity": "2h"}}})
        copy = ObjectKey(namespace, copy_name(names[0], "robot"))
        token = await fleet.secret(copy, lambda secret: "2h" in secret.annotations["accounts.watchword.dev/requested"])
        found = await eventually(fleet.client, SECRETS, key, holds(token.token))
        assert found["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster"
        assert base64.b64decode(found["data"]["server"]).decode() == fleet.server

        await fleet.client.delete(MSA, ObjectKey(namespace, "robot"))
        await eventually(fleet.client, SECRETS, key, is_gone)


def holds(token: Sensitive[str]) -> Callable[[Object | None], bool]:
    def test(obj: Object | None) -> bool:
        config = orjson.loads(base64.b64decode(((obj or {}).get("data") or {}).get("config") or "e30="))
        return bool(config.get("bearerToken") == token.reveal())

    return test


async def test_cluster_secret_that_a_person_made_is_not_replaced(fleet: AccountsFleet) -> None:
    argo = await fleet.plane.namespace("argocd")
    await fleet.client.create(SECRETS, a_secret("cluster-edge", namespace=argo, data={"name": "mine"}))
    exporter = ArgoExporter(fleet.client, ROBOT, argo)
    with pytest.raises(Exception, match="rename or remove it"):
        await exporter.put(a_token())
    await exporter.remove("edge")
    assert await fleet.client.find(SECRETS, ObjectKey(argo, "cluster-edge")) is not None


async def test_export_that_was_stopped_removes_what_went_meanwhile(fleet: AccountsFleet) -> None:
    namespace, names = await a_fleet_account(fleet)
    argo = await fleet.plane.namespace("argocd")
    keys = [ObjectKey(argo, f"cluster-{name}") for name in names]

    def export() -> Coroutine[Any, Any, None]:
        exporter = ArgoExporter(fleet.client, ObjectKey(namespace, "robot"), argo)
        return run_export(fleet.client, "robot", exporter, namespace=namespace)

    others = ArgoExporter(fleet.client, ObjectKey(namespace, "other"), argo)
    await others.put(a_token(cluster="elsewhere"))
    async with running(export(), "export"):
        for key in keys:
            await eventually(fleet.client, SECRETS, key)
    await fleet.client.delete(MSA, ObjectKey(namespace, "robot"))
    await eventually(fleet.client, MSA, ObjectKey(namespace, "robot"), is_gone)

    async with running(export(), "export"):
        for key in keys:
            await eventually(fleet.client, SECRETS, key, is_gone)
    assert await others.exported() == ["elsewhere"]


async def test_name_that_is_taken_holds_up_no_other_cluster(fleet: AccountsFleet) -> None:
    namespace, names = await a_fleet_account(fleet)
    argo = await fleet.plane.namespace("argocd")
    taken = ObjectKey(argo, f"cluster-{names[0]}")
    await fleet.client.create(SECRETS, a_secret(taken.name, namespace=argo, data={"name": "mine"}))
    reported: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def report(change: TokenChange, problem: str) -> None:
        reported.put_nowait((change.cluster, problem))

    exporter = ArgoExporter(fleet.client, ObjectKey(namespace, "robot"), argo)
    async with running(run_export(fleet.client, "robot", exporter, namespace=namespace, report=report), "export"):
        await eventually(fleet.client, SECRETS, ObjectKey(argo, f"cluster-{names[1]}"))
        said = dict([await reported.get(), await reported.get()])
        assert said[names[1]] == ""
        assert "rename or remove it" in said[names[0]]
        await fleet.client.delete(SECRETS, taken)
        await eventually(fleet.client, SECRETS, taken, lambda obj: "config" in (obj or {}).get("data", {}), within=90)


@dataclass
class BusyHub:
    """Refuses the first write of each kind of request as outdated, and loses the connection of the second."""

    inner: Transport
    failed: list[str] = field(default_factory=list)

    async def send(self, request: Request) -> Response:
        if request.method == "GET" or self.failed.count(request.method) == 2:
            return await self.inner.send(request)
        self.failed.append(request.method)
        if self.failed.count(request.method) == 2:
            raise Unreachable("the connection was reset")
        status = {"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": "outdated"}
        return Response(409, (("Content-Type", "application/json"),), orjson.dumps(status))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        return None


async def test_export_outlives_a_hub_that_refuses_writes_for_a_moment(fleet: AccountsFleet) -> None:
    namespace, names = await a_fleet_account(fleet)
    argo = await fleet.plane.namespace("argocd")
    busy = BusyHub(fleet.client.transport)
    exporter = ArgoExporter(fleet.client.without_retries().over(busy), ObjectKey(namespace, "robot"), argo)
    keys = [ObjectKey(argo, f"cluster-{name}") for name in names]

    async with running(run_export(fleet.client, "robot", exporter, namespace=namespace), "export"):
        for key in keys:
            await eventually(fleet.client, SECRETS, key, within=300)
        await fleet.client.delete(MSA, ObjectKey(namespace, "robot"))
        for key in keys:
            await eventually(fleet.client, SECRETS, key, is_gone, within=300)
    assert busy.failed.count("POST") == busy.failed.count("DELETE") == 2


@pytest.mark.planes("embedded")  # other tests give a shared one the kind
async def test_server_without_cluster_profiles_is_named(fleet: AccountsFleet) -> None:
    with pytest.raises(ExportRefused, match="install the CustomResourceDefinition"):
        await run_export(fleet.client, "robot", ClusterProfileExporter(fleet.client, ROBOT, "inventory"))


async def test_cluster_profile_tells_how_to_reach_a_cluster_and_holds_no_token(fleet: AccountsFleet) -> None:
    await install_cluster_profiles(fleet.client)
    namespace, names = await a_fleet_account(fleet)
    target = await fleet.plane.namespace("inventory")
    work = run_export(
        fleet.client,
        "robot",
        ClusterProfileExporter(fleet.client, ObjectKey(namespace, "robot"), target),
        namespace=namespace,
    )

    async with running(work, "export"):
        provided = lambda obj: bool((obj or {}).get("status", {}).get("accessProviders"))  # noqa: E731 - a test
        found = await eventually(fleet.client, CLUSTER_PROFILES, ObjectKey(target, names[0]), provided)
    (provider,) = found["status"]["accessProviders"]
    assert (provider["name"], provider["cluster"]["server"]) == (PROVIDER, fleet.server)
    assert provider["cluster"]["extensions"][0]["extension"] == {"clusterName": names[0]}
    token = await find_token(fleet.client, "robot", names[0], namespace=namespace)
    assert token is not None
    assert token.token.reveal() not in str(found)


async def test_endpoint_that_changes_is_followed_by_clients(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    seen: asyncio.Queue[str] = asyncio.Queue()
    make = transports(fleet)

    def noted(endpoint: Endpoint, source: CredentialSource):  # type: ignore[no-untyped-def]
        seen.put_nowait(endpoint.server)
        return make(Endpoint(fleet.server, endpoint.ca), source)

    async with ClusterClients(fleet.client, "robot", make_transport=noted) as clusters:
        client = await clusters.client(member.name)
        await who_am_i(client)
        patch = {"spec": {"managedClusterClientConfigs": [{"url": "https://moved.test:6443"}]}}
        await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(member.name), patch)
        await fleet.secret(key, lambda secret: secret.server == "https://moved.test:6443")
        async with asyncio.timeout(30):
            while seen.qsize() < 2:
                await who_am_i(client)
                await asyncio.sleep(0.05)  # the client is told by its own watch
    assert [seen.get_nowait(), seen.get_nowait()] == [fleet.server, "https://moved.test:6443"]
