"""A control plane asks a webhook about tokens that it does not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
import pytest_asyncio
from tests.emulators.tls_server import serve_tls
from tests.helpers.kubeconfigs import kubeconfig

from watchword.api.http import Request, Response
from watchword.api.meta import Object
from watchword.api.sensitive import Sensitive
from watchword.kube.access_reviews import TokenReviewClient
from watchword.kube.client import Client
from watchword.kube.connect import credentials_of, make_client
from watchword.kube.endpoint import Endpoint
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.pki.authority import Authority
from watchword.testing.credentials import write_private
from watchword.testing.plane import Plane

pytestmark = pytest.mark.real_time

SELF_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
USER = {"username": "edge", "groups": ["ocm"], "uid": "7", "extra": {"arn": ["a"]}}


async def review(request: Request) -> Response:
    """Know one token, fail for another, and know no third."""
    token = orjson.loads(request.body)["spec"]["token"]
    if token == "broken":
        return Response(500, body=b"{}")
    if request.path != "/reviews/hub":
        return Response(404)
    status = {"authenticated": True, "user": USER} if token == "known" else {"authenticated": False}
    answer = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
    return Response(200, (("Content-Type", "application/json"),), orjson.dumps(answer))


@pytest_asyncio.fixture
async def token_webhook(tmp_path: Path) -> AsyncIterator[Path]:
    authority = Authority.make("webhook", now=datetime.now(UTC))
    async with serve_tls(review, authority, tmp_path) as server:
        document = kubeconfig(f"{server.url}/reviews/hub", authority.certificate.pem, {})
        yield write_private(tmp_path / "webhook.kubeconfig", orjson.dumps(document))


def with_token(plane: Plane, token: str) -> Client:
    cluster = ClusterEntry(plane.server, ca_data=plane.ca_pem)
    credentials = credentials_of(UserEntry(token=Sensitive(token)), cluster)
    return plane.adopt(make_client(Endpoint(plane.server, plane.ca_pem), credentials))


async def ask(client: Client) -> tuple[int, Object]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    response = await client.request("POST", SELF_REVIEW, body=body)
    found: Object = orjson.loads(response.body)
    return response.status, found


async def test_token_that_the_webhook_knows_authenticates_its_user(private_plane: Plane) -> None:
    status, found = await ask(with_token(private_plane, "known"))

    user = found["status"]["userInfo"]
    assert (status, user["username"], user["extra"]["arn"]) == (201, "edge", ["a"])
    assert set(user["groups"]) == {"ocm", "system:authenticated"}


@pytest.mark.parametrize("token", ["unknown", "broken"])
async def test_token_that_the_webhook_does_not_confirm_is_refused(private_plane: Plane, token: str) -> None:
    status, _ = await ask(with_token(private_plane, token))

    assert status == 401


async def test_unreachable_webhook_is_an_error_of_the_connection(tmp_path: Path) -> None:
    document = kubeconfig("https://127.0.0.1:1", Authority.make("webhook", now=datetime.now(UTC)).certificate.pem, {})
    client = TokenReviewClient.connect(write_private(tmp_path / "webhook.kubeconfig", orjson.dumps(document)))

    with pytest.raises(ConnectionError):
        await client({"kind": "TokenReview", "spec": {"token": "known"}})
