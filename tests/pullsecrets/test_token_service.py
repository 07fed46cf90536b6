"""The token service grants exactly what Kubernetes allows, and refuses everything else."""

from __future__ import annotations

import base64
from urllib.parse import urlencode

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey
from tests.pullsecrets.harness import PullSecretHarness
from tests.pullsecrets.registry import allow

from watchword.api.http import Request, Response
from watchword.api.meta import Object
from watchword.kube.client import Client
from watchword.kube.tokens import request_token
from watchword.pki.authority import Authority
from watchword.pki.jwt import TokenSigner
from watchword.pullsecrets.registry_auth import (
    Scope,
    TokenService,
    TokenServiceOptions,
    parse_scopes,
    required_access,
    token_counter,
)
from watchword.runtime.prometheus import CollectorRegistry

AUDIENCE = "registry.test"


def a_service(cluster: PullSecretHarness, client: Client | None = None, *audiences: str) -> TokenService:
    authority = Authority.make("registry-auth", now=cluster.plane.clock.now())
    return TokenService(
        client or cluster.client,
        TokenSigner(authority.key, (authority.certificate.der,)),
        cluster.plane.clock,
        TokenServiceOptions("issuer", "registry", audiences or (AUDIENCE,)),
        token_counter(CollectorRegistry()),
    )


def asks(password: str, *scopes: str, service: str = "registry") -> Request:
    query = (("service", service), *(("scope", scope) for scope in scopes))
    header = base64.b64encode(f"<token>:{password}".encode()).decode()
    return Request("GET", "/token", query=query, headers=(("Authorization", f"Basic {header}"),))


async def token_for(cluster: PullSecretHarness, account: str, audience: str = AUDIENCE) -> str:
    issued = await request_token(cluster.client, cluster.key(account), expiration_seconds=600, audiences=[audience])
    return issued.token.reveal()


def access_of(response: Response) -> list[Object]:
    assert response.status == 200, response.body
    payload = orjson.loads(response.body)["token"].split(".")[1]
    return list(orjson.loads(base64.urlsafe_b64decode(payload + "==="))["access"])


async def test_only_allowed_actions_are_granted(cluster: PullSecretHarness) -> None:
    await cluster.account("puller")
    await allow(cluster.client, cluster.key("puller"), "get")
    own, other = f"repository:{cluster.namespace}/app", "repository:kube-system/app"

    response = await a_service(cluster).handle(
        asks(await token_for(cluster, "puller"), f"{own}:pull,push,delete {other}:pull", "registry:catalog:*")
    )

    assert access_of(response) == [{"type": "repository", "name": f"{cluster.namespace}/app", "actions": ["pull"]}]


async def test_token_verifies_with_the_certificate_in_its_header(cluster: PullSecretHarness) -> None:
    await cluster.account("puller")
    service = a_service(cluster)

    response = await service.handle(asks(await token_for(cluster, "puller")))

    certificate = x509.load_der_x509_certificate(service.signer.certificates[0])
    key = ECKey.import_key(certificate.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    parser = jws.JWSRegistry(algorithms=["ES256"])
    parser.max_header_length = 4096
    verified = jws.deserialize_compact(orjson.loads(response.body)["token"], key, registry=parser)
    claims = orjson.loads(verified.payload)
    assert base64.b64decode(verified.headers()["x5c"][0]) == service.signer.certificates[0]
    assert (claims["iss"], claims["aud"]) == ("issuer", "registry")
    assert claims["sub"] == f"system:serviceaccount:{cluster.namespace}:puller"
    assert claims["exp"] - claims["iat"] == 300


async def test_token_for_another_audience_is_refused(cluster: PullSecretHarness) -> None:
    await cluster.account("puller")

    response = await a_service(cluster).handle(asks(await token_for(cluster, "puller", "vault.example")))

    assert response.status == 401
    assert response.header("WWW-Authenticate").startswith("Basic ")


async def test_oauth_request_by_post_is_answered_alike(cluster: PullSecretHarness) -> None:
    await cluster.account("puller")
    await allow(cluster.client, cluster.key("puller"), "get")
    scope = f"repository:{cluster.namespace}/app:pull"
    form = {"grant_type": "password", "service": "registry", "scope": scope, "username": "any"}
    body = urlencode({**form, "password": await token_for(cluster, "puller")}).encode()

    response = await a_service(cluster).handle(Request("POST", "/token", body=body))

    assert [row["actions"] for row in access_of(response)] == [["pull"]]


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        pytest.param("", 401, id="none"),
        pytest.param("Basic !!!", 401, id="not base64"),
        pytest.param("Basic " + base64.b64encode(b"user").decode(), 401, id="no password"),
        pytest.param("Basic " + base64.b64encode(b"user:\xff").decode(), 401, id="not text"),
        pytest.param("Bearer abc", 401, id="another scheme"),
        pytest.param("Basic " + base64.b64encode(b"user:not-a-token").decode(), 401, id="not a token"),
    ],
)
async def test_request_without_a_valid_token_is_refused(
    cluster: PullSecretHarness, authorization: str, status: int
) -> None:
    request = Request("GET", "/token", (("service", "registry"),), (("Authorization", authorization),))

    assert (await a_service(cluster).handle(request)).status == status


async def test_request_for_another_service_is_refused(cluster: PullSecretHarness) -> None:
    await cluster.account("puller")

    response = await a_service(cluster).handle(asks(await token_for(cluster, "puller"), service="other"))

    assert response.status == 400


async def test_api_server_that_does_not_answer_is_no_refusal(cluster: PullSecretHarness) -> None:
    service = a_service(cluster, cluster.plane.fresh_client("nobody"))

    response = await service.handle(asks("any"))

    assert response.status == 503
    assert b"any" not in response.body.replace(b"unavailable", b"")


async def test_answers_are_counted_without_anything_of_the_token(cluster: PullSecretHarness) -> None:
    await cluster.account("puller")
    registry = CollectorRegistry()
    made = a_service(cluster)
    service = TokenService(made.client, made.signer, made.clock, made.options, token_counter(registry))

    await service.handle(asks(await token_for(cluster, "puller")))
    await service.handle(asks("wrong"))

    text = registry.exposition().decode()
    assert 'watchword_registry_token_total{result="granted"} 1.0' in text
    assert 'watchword_registry_token_total{result="refused"} 1.0' in text


@pytest.mark.parametrize(
    ("name", "namespace", "stream"),
    [("team/app", "team", "app"), ("team/app/base", "team", "app/base")],
)
def test_first_part_of_a_repository_is_its_namespace(name: str, namespace: str, stream: str) -> None:
    access = required_access(Scope("repository", name, ("pull",)), "pull")

    assert access is not None
    assert (access.verb, access.key.namespace, access.key.name, access.subresource) == (
        "get",
        namespace,
        stream,
        "layers",
    )


@pytest.mark.parametrize("name", ["alpine", "../team/app", "team//app", "Team/app", "team/app ", "", "/app"])
def test_name_that_is_no_repository_of_a_namespace_needs_a_right_that_does_not_exist(name: str) -> None:
    assert required_access(Scope("repository", name, ("pull",)), "pull") is None


@given(st.lists(st.text(max_size=60), max_size=5))
def test_no_scope_breaks_the_reader(values: list[str]) -> None:
    for scope in parse_scopes(values):
        for action in scope.actions:
            required_access(scope, action)
