"""The kubelet gets the pod's own token as a credential, for the right registries and no longer than it is valid."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from click.testing import CliRunner
from tests.helpers.derived_keys import derived_key

from watchword.api import yaml
from watchword.cli.main import cli
from watchword.pki.jwt import TokenSigner
from watchword.pullsecrets.credential_provider import CredentialRequestRefused, answer_request, matches_image

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOKEN = (
    TokenSigner(derived_key(7))
    .sign({"sub": "system:serviceaccount:a:b", "iat": NOW.timestamp(), "exp": NOW.timestamp() + 3600})
    .reveal()
)


def a_request(**fields: object) -> bytes:
    request = {
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderRequest",
        "image": "registry.example:5000/team/app:1",
        "serviceAccountToken": TOKEN,
    }
    return orjson.dumps({**request, **fields})


def test_token_is_the_password_for_the_registry_of_the_image() -> None:
    response = orjson.loads(answer_request(a_request(), now=NOW))

    assert response == {
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry",
        "cacheDuration": "3540s",
        "auth": {"registry.example:5000": {"username": "<token>", "password": TOKEN}},
    }


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b"[]", "not a CredentialProviderRequest", id="a list"),
        pytest.param(a_request(apiVersion="v1"), "not a CredentialProviderRequest", id="another version"),
        pytest.param(a_request(image=""), "not a CredentialProviderRequest", id="no image"),
        pytest.param(a_request(serviceAccountToken=""), "configure tokenAttributes", id="no token"),
        pytest.param(a_request(serviceAccountToken="abc"), "not a bound service account token", id="no JWT"),
        pytest.param(a_request(image="evil.example/team/app"), "no configured image matches", id="another registry"),
    ],
)
def test_request_that_cannot_be_answered_is_refused(request_: bytes, part: str) -> None:
    with pytest.raises(CredentialRequestRefused, match=part) as refusal:
        answer_request(request_, images=("registry.example:5000",), now=NOW)

    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize(
    ("pattern", "image", "expected"),
    [
        ("registry.example", "registry.example/app", True),
        ("*.example", "registry.example/app", True),
        ("*.example", "a.registry.example/app", False),
        ("*.*.example", "a.registry.example/app", True),
        ("registry.example", "registry.example:5000/app", False),
        ("registry.example:5000", "registry.example:5000/app", True),
        ("registry.example/team", "registry.example/team/app", True),
        ("registry.example/team", "registry.example/other/app", False),
    ],
)
def test_images_are_matched_as_the_kubelet_matches_them(pattern: str, image: str, *, expected: bool) -> None:
    assert matches_image(pattern, image) is expected


def test_command_answers_the_kubelet_and_refuses_in_one_sentence() -> None:
    answered = CliRunner().invoke(cli, ["credential-provider", "--image", "registry.example:5000"], input=a_request())
    refused = CliRunner().invoke(cli, ["credential-provider", "--image", "other.example"], input=a_request())

    assert list(orjson.loads(answered.stdout)["auth"]) == ["registry.example:5000"]
    assert isinstance(refused.exception, CredentialRequestRefused)


def test_printed_configuration_runs_this_command_with_the_token_of_the_pod() -> None:
    arguments = ["credential-provider", "config", "--image", "*.example", "--audience", "registry"]

    printed = yaml.load(CliRunner().invoke(cli, arguments).stdout)

    (provider,) = printed["providers"]
    assert printed["kind"] == "CredentialProviderConfig"
    assert provider["args"] == ["credential-provider", "--image=*.example"]
    assert provider["tokenAttributes"] == {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "Token",
        "requireServiceAccount": True,
    }
