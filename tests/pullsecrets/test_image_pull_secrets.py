"""Every pull secret holds a valid token for every registry, at all times."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from functools import partial
from itertools import pairwise

import orjson
import pytest
from tests.helpers.events import is_told
from tests.pullsecrets.harness import (
    REGISTRY,
    PullSecretHarness,
    claims_of,
    content_of,
    holds_another_token,
    is_signed_by_another_key,
    token_of,
)

from watchword.api.meta import Object, ObjectKey
from watchword.api.pull_secrets import DOCKERCFG_KEY
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SERVICES, TOKEN_REVIEWS
from watchword.credentials.evidence import SignerTiming
from watchword.pki.keys import PrivateKey
from watchword.testing.eventually import eventually, is_gone

HOUR = 3600.0
QUICK = SignerTiming(settle=timedelta(seconds=1), spread=timedelta(seconds=1), poll=timedelta(seconds=1))


async def is_accepted(cluster: PullSecretHarness, token: str, *audiences: str) -> bool:
    """Ask the server whether it accepts a token."""
    spec = {"token": token, "audiences": list(audiences)}
    review = TOKEN_REVIEWS.manifest(ObjectKey.cluster(""), spec=spec)
    answer = await cluster.client.request("POST", TOKEN_REVIEWS.path(), body=review)
    return orjson.loads(answer.body)["status"].get("authenticated") is True


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"registry.example:5000":{}}', id="no credential"),
        pytest.param(b'{"registry.example:5000":{"auth":"bm8="}}', id="no token"),
        pytest.param(b"{}", id="nothing"),
    ],
)
async def test_corrupt_content_is_replaced(cluster: PullSecretHarness, content: bytes) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    broken = {"data": {DOCKERCFG_KEY: base64.b64encode(content).decode()}}
    await cluster.client.patch(SECRETS, ObjectKey.of(first), broken)

    def is_whole(secret: Object | None) -> bool:
        return secret is not None and base64.b64decode(secret["data"][DOCKERCFG_KEY]).count(b'"auth"') == 1

    second = await cluster.secret(
        first["metadata"]["name"], lambda s: is_whole(s) and s is not None and len(str(content_of(s))) > 100
    )
    assert await is_accepted(cluster, token_of(second))


async def test_registries_are_followed_without_a_restart(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    name = (await cluster.listed("builder"))["metadata"]["name"]

    await cluster.configure(registries=f"{REGISTRY} second.example")
    await cluster.secret(name, lambda s: s is not None and set(content_of(s)) == {REGISTRY, "second.example"})
    await cluster.configure(registries="second.example")

    await cluster.secret(name, lambda s: s is not None and set(content_of(s)) == {"second.example"})


async def test_registries_that_change_often_are_followed_each_time(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    name = (await cluster.listed("builder"))["metadata"]["name"]

    for number in range(12):
        wanted = {f"r{number}.example"}
        await cluster.configure(registries=f"r{number}.example")
        await cluster.secret(name, partial(_is_for, wanted), within=20)


def _is_for(registries: set[str], secret: Object | None) -> bool:
    return secret is not None and set(content_of(secret)) == registries


async def test_registry_service_is_followed_when_it_comes_and_goes(cluster: PullSecretHarness) -> None:
    service = ObjectKey(await cluster.plane.namespace("registry"), "image-registry")
    cluster.start(registry_services=(service,))
    await cluster.account("builder")
    name = (await cluster.listed("builder"))["metadata"]["name"]
    host = f"image-registry.{service.namespace}.svc"

    made = await cluster.client.create(SERVICES, SERVICES.manifest(service, spec={"ports": [{"port": 5000}]}))
    added = {f"{host}:5000", f"{host}.cluster.local:5000", f"{made['spec']['clusterIP']}:5000"}
    await cluster.secret(name, lambda s: s is not None and set(content_of(s)) == {REGISTRY, *added})
    await cluster.client.delete(SERVICES, service)

    await cluster.secret(name, lambda s: s is not None and set(content_of(s)) == {REGISTRY})


async def test_token_for_the_configured_audience_is_no_credential_of_the_api(cluster: PullSecretHarness) -> None:
    await cluster.configure(audience="registry.example")
    cluster.start()
    await cluster.account("builder")

    secret = await cluster.listed("builder")

    assert claims_of(secret)["aud"] == ["registry.example"]
    assert await is_accepted(cluster, token_of(secret), "registry.example")
    assert not await is_accepted(cluster, token_of(secret))


async def test_token_ends_with_its_secret_and_with_its_account(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")
    await cluster.client.delete(SECRETS, ObjectKey.of(first))
    second = await cluster.secret(first["metadata"]["name"], holds_another_token(first))

    assert not await is_accepted(cluster, token_of(first))
    await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key("builder"))
    await eventually(cluster.client, SECRETS, ObjectKey.of(first), is_gone)
    assert not await is_accepted(cluster, token_of(second))


@pytest.mark.planes("embedded")  # similar Events of the accounts of other tests would be combined
async def test_new_pull_secret_and_its_token_are_told(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    secret = await cluster.listed("builder")

    await is_told(cluster.client, "builder", "PullSecretCreated")
    await is_told(cluster.client, secret["metadata"]["name"], "PullSecretRefreshed")


@pytest.mark.slow
@pytest.mark.planes("embedded")
async def test_token_is_renewed_before_its_last_eleven_minutes_for_two_days(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    secret = await cluster.listed("builder")
    name, tokens = secret["metadata"]["name"], [secret]
    end = cluster.plane.clock.now().timestamp() + 48 * HOUR

    while cluster.plane.clock.now().timestamp() < end:
        secret = await cluster.secret(name, holds_another_token(tokens[-1]), within=HOUR)
        assert claims_of(tokens[-1])["exp"] - cluster.plane.clock.now().timestamp() >= 11 * 60
        assert await is_accepted(cluster, token_of(secret))
        tokens.append(secret)

    lives = [claims_of(b)["iat"] - claims_of(a)["iat"] for a, b in pairwise(tokens)]
    assert min(lives) >= 24 * 60
    assert len({round(life) for life in lives}) > len(lives) // 2  # spread: no two secrets keep step


@pytest.mark.planes("embedded")
async def test_cluster_that_slept_for_days_gets_valid_tokens_at_once(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")
    await cluster.stop()
    await asyncio.sleep(3 * 24 * HOUR)

    cluster.start()

    second = await cluster.secret(first["metadata"]["name"], holds_another_token(first))
    assert await is_accepted(cluster, token_of(second))


async def test_tokens_follow_a_rotation_of_the_signing_key(private_cluster: PullSecretHarness) -> None:
    private_cluster.start(signer_timing=QUICK)
    await private_cluster.account("builder")
    first = await private_cluster.listed("builder")

    await private_cluster.plane.rotate_signing_key()

    second = await private_cluster.secret(first["metadata"]["name"], is_signed_by_another_key(first))
    assert await is_accepted(private_cluster, token_of(second))


@pytest.mark.planes("embedded")
async def test_signing_key_secret_that_no_server_uses_yet_causes_no_refresh_loop(cluster: PullSecretHarness) -> None:
    """The signing key Secret names the next key long before every API server signs with it."""
    namespace = ObjectKey.cluster("openshift-kube-apiserver")
    await cluster.client.create(NAMESPACES, NAMESPACES.manifest(namespace))
    await cluster.client.create(
        SECRETS,
        SECRETS.manifest(
            ObjectKey(namespace.name, "bound-service-account-signing-key"),
            stringData={"service-account.pub": PrivateKey.generate().public.pem.decode()},
        ),
    )
    cluster.start()
    for number in range(10):
        await cluster.account(f"builder-{number}")
        await cluster.listed(f"builder-{number}")
    cluster.written.clear()

    await asyncio.sleep(20 * 60)

    refreshes = [row for row in cluster.written if row.endswith("/token") and "/builder-" in row]
    assert len(refreshes) <= 10


@pytest.mark.planes("embedded")
async def test_configuration_is_read_again_after_its_config_map_was_deleted(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    await cluster.client.delete(CONFIG_MAPS, cluster.options.config_map)
    await asyncio.sleep(60)
    kept = await cluster.client.get(SECRETS, ObjectKey.of(first))
    await cluster.configure(registries="other.example")

    assert token_of(kept) == token_of(first)  # no registry is known: what is there stays as it is
    await cluster.secret(first["metadata"]["name"], lambda s: s is not None and set(content_of(s)) == {"other.example"})
