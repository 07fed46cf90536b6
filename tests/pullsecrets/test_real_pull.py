"""A real client pulls from and pushes to a real registry with what is in a pull secret."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import orjson
import pytest
from click.testing import CliRunner
from tests.pullsecrets.harness import (
    PullSecretHarness,
    content_of,
    holds_another_token,
    is_signed_by_another_key,
    open_pull_secrets,
)
from tests.pullsecrets.registry import Registry, allow, open_registry, require_programs

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.cli.main import cli
from watchword.credentials.evidence import SignerTiming
from watchword.kube.tokens import request_token
from watchword.pki.jwt import TokenSigner, read_unverified_claims
from watchword.pki.keys import PrivateKey
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

AUDIENCE = "registry.test"
QUICK = SignerTiming(settle=timedelta(seconds=1), spread=timedelta(seconds=1), poll=timedelta(seconds=1))

pytestmark = pytest.mark.real_time


@pytest.fixture
async def registry(cluster: PullSecretHarness, tmp_path: Path) -> AsyncIterator[Registry]:
    require_programs()
    async with open_registry(cluster.client, tmp_path, AUDIENCE) as found:
        await cluster.configure(registries=found.host, audience=AUDIENCE)
        yield found


async def test_pull_secret_pushes_and_pulls_as_far_as_its_account_may(
    cluster: PullSecretHarness, registry: Registry
) -> None:
    cluster.start()
    for name, verbs in (("pusher", ("get", "update")), ("puller", ("get",)), ("outsider", ("list",))):
        await cluster.account(name)
        await allow(cluster.client, cluster.key(name), *verbs)
    repository = f"{cluster.namespace}/app:1"
    pusher, puller, outsider = [content_of(await cluster.listed(n)) for n in ("pusher", "puller", "outsider")]

    assert await registry.push(repository, pusher) == ""
    assert await registry.pull(repository, puller) == ""
    assert "denied" in await registry.push(repository, puller)
    assert "denied" in await registry.pull(repository, outsider)
    assert "denied" in await registry.pull("kube-system/app:1", puller)


def _part(value: Object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


async def test_registry_refuses_forged_and_foreign_tokens(cluster: PullSecretHarness, registry: Registry) -> None:
    cluster.start()
    await cluster.account("puller")
    await allow(cluster.client, cluster.key("puller"), "get")
    [row] = content_of(await cluster.listed("puller")).values()
    ours, others = f"{cluster.namespace}/app", "kube-system/app"
    async with aiohttp.ClientSession() as session:

        async def status(token: str, repository: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"http://{registry.host}/v2/{repository}/tags/list", headers=headers) as answer:
                return answer.status

        genuine = await registry.token(session, ours, row["auth"])
        head, _, signature = genuine.split(".")
        claims = read_unverified_claims(genuine)
        wider = {**claims, "access": [{"type": "repository", "name": others, "actions": ["pull"]}]}
        forged = {
            "other claims": f"{head}.{_part(wider)}.{signature}",
            "no signature": f"{_part({'typ': 'JWT', 'alg': 'none'})}.{_part(wider)}.",
            "another key": TokenSigner(PrivateKey.generate()).sign(wider).reveal(),
            "the token of the account": base64.b64decode(row["auth"]).decode().partition(":")[2],
        }
        assert await status(genuine, ours) == 404  # allowed, and nothing was pushed
        assert {name: await status(token, others) for name, token in forged.items()} == dict.fromkeys(forged, 401)
        assert await status(genuine, others) == 401
        assert await status(await registry.token(session, others, row["auth"]), others) == 401


async def test_pull_is_refused_after_the_secret_was_deleted_and_after_the_account_was(
    cluster: PullSecretHarness, registry: Registry
) -> None:
    cluster.start()
    for name in ("first", "second"):
        await cluster.account(name)
        await allow(cluster.client, cluster.key(name), "get", "update")
    first, second = await cluster.listed("first"), await cluster.listed("second")
    repository = f"{cluster.namespace}/app:1"
    third = await cluster.account("third")
    await allow(cluster.client, ObjectKey.of(third), "get", "update")
    assert await registry.push(repository, content_of(await cluster.listed("third"))) == ""

    await cluster.client.delete(SECRETS, ObjectKey.of(first))
    await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key("second"))
    await eventually(cluster.client, SECRETS, ObjectKey.of(second), is_gone)

    assert "unauthorized" in await registry.pull(repository, content_of(first))
    assert "unauthorized" in await registry.pull(repository, content_of(second))


async def test_pull_goes_on_after_the_token_was_replaced(cluster: PullSecretHarness, registry: Registry) -> None:
    cluster.start()
    await cluster.account("pusher")
    await allow(cluster.client, cluster.key("pusher"), "get", "update")
    before = await cluster.listed("pusher")
    repository = f"{cluster.namespace}/app:1"
    assert await registry.push(repository, content_of(before)) == ""

    await cluster.configure(registries=f"{registry.host} more.example", audience=AUDIENCE)
    after = await cluster.secret(before["metadata"]["name"], holds_another_token(before))

    assert await registry.pull(repository, content_of(after)) == ""


async def test_kubelet_pulls_with_the_credential_that_the_provider_gives_it(
    cluster: PullSecretHarness, registry: Registry, tmp_path: Path
) -> None:
    """The request is the one that a kubelet sends: the token is for the audience and bound to the pod."""
    account = await cluster.account("app")
    await allow(cluster.client, ObjectKey.of(account), "get", "update")
    spec = {"serviceAccountName": "app", "containers": [{"name": "app", "image": "app"}]}
    pod = await cluster.client.create(PODS, PODS.manifest(cluster.key("app"), spec=spec))
    bound_to = {"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": uid_of(pod)}
    issued = await request_token(
        cluster.client, ObjectKey.of(account), expiration_seconds=600, audiences=[AUDIENCE], bound_to=bound_to
    )
    repository = f"{cluster.namespace}/app:1"
    request = {
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderRequest",
        "image": f"{registry.host}/{repository}",
        "serviceAccountToken": issued.token.reveal(),
    }
    done = CliRunner().invoke(cli, ["credential-provider"], input=orjson.dumps(request))
    auth = orjson.loads(done.stdout)["auth"]
    dockercfg = {host: {"auth": _basic(row["username"], row["password"])} for host, row in auth.items()}

    assert await registry.push(repository, dockercfg) == ""
    assert await registry.pull(repository, dockercfg) == ""
    assert await cluster.pull_secrets() == []
    assert list(auth) == [registry.host]


@pytest.mark.planes("kube-apiserver")
async def test_pull_goes_on_after_kube_apiserver_got_another_signing_key(private_plane: Plane, tmp_path: Path) -> None:
    await _pull_through_a_rotation(private_plane, tmp_path)


async def test_pull_goes_on_after_the_embedded_plane_got_another_signing_key(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    async with open_embedded(folder, listening=True) as backend:
        plane = Plane(backend, private=True)
        await _pull_through_a_rotation(plane, tmp_path)
        await plane.close()


async def _pull_through_a_rotation(plane: Plane, folder: Path) -> None:
    require_programs()
    async with open_pull_secrets(plane) as cluster, open_registry(cluster.client, folder, AUDIENCE) as registry:
        await cluster.configure(registries=registry.host, audience=AUDIENCE)
        cluster.start(signer_timing=QUICK)
        await cluster.account("pusher")
        await allow(cluster.client, cluster.key("pusher"), "get", "update")
        before = await cluster.listed("pusher")
        repository = f"{cluster.namespace}/app:1"
        assert await registry.push(repository, content_of(before)) == ""

        await plane.rotate_signing_key()
        assert await registry.pull(repository, content_of(before)) == ""
        after = await cluster.secret(before["metadata"]["name"], is_signed_by_another_key(before))

        assert await registry.pull(repository, content_of(after)) == ""


def _basic(username: str, password: str) -> str:

    return base64.b64encode(f"{username}:{password}".encode()).decode()
