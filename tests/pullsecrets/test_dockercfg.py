"""The content of a pull secret, written and read."""

from __future__ import annotations

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.derived_keys import derived_key

from watchword.pki.jwt import TokenSigner
from watchword.pullsecrets.pull_secret import (
    Corrupt,
    Credentials,
    Empty,
    project_pull_secret,
    read_dockercfg,
    render_dockercfg,
)

KEY = derived_key(7)
TOKEN = TokenSigner(KEY).sign({"sub": "system:serviceaccount:a:b", "iat": 1000, "exp": 4600, "aud": ["x"]})


def entry(username: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{username}:{password}".encode()).decode()}


def test_what_is_written_is_read_again() -> None:
    found = read_dockercfg(render_dockercfg(["b.example", "a.example", "b.example"], TOKEN))

    assert isinstance(found, Credentials)
    assert found.registries == ("a.example", "b.example")
    assert found.token.key_id == KEY.public.key_id


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{", id="half of it"),
        pytest.param(orjson.dumps({"a": {}}), id="no credential"),
        pytest.param(orjson.dumps({"a": {"auth": "aGk=é"}}), id="base64 beyond ASCII"),
        pytest.param(orjson.dumps({"a": entry("<token>", "abc")}), id="no JWT"),
        pytest.param(orjson.dumps({"a": entry("admin", TOKEN.reveal())}), id="another user"),
        pytest.param(orjson.dumps({"a": {**entry("<token>", TOKEN.reveal()), "password": "x"}}), id="two credentials"),
        pytest.param(
            orjson.dumps({"a": entry("<token>", TOKEN.reveal()), "b": entry("<token>", "abc")}), id="two tokens"
        ),
        pytest.param(
            orjson.dumps({"a": entry("<token>", TokenSigner(KEY).sign({"sub": "x"}).reveal())}), id="no expiry"
        ),
    ],
)
def test_anything_else_is_corrupt(content: bytes) -> None:
    assert read_dockercfg(content) == Corrupt()


def test_empty_object_is_no_credential_yet() -> None:
    assert read_dockercfg(b"{}") == Empty()


@given(st.binary(max_size=200))
def test_no_content_breaks_the_reader(content: bytes) -> None:
    read_dockercfg(content)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), lambda x: st.dictionaries(st.text(), x)
    )
)
def test_no_claims_break_the_reader(claims: object) -> None:
    token = TokenSigner(KEY).sign({"iat": claims, "exp": claims, "kubernetes.io": claims})

    read_dockercfg(render_dockercfg(["a"], token))


def test_no_token_enters_the_cache() -> None:
    data = base64.b64encode(render_dockercfg(["a.example"], TOKEN)).decode()
    annotations = {
        "openshift.io/internal-registry-auth-token.service-account": "b",
        "openshift.io/token-secret.value": TOKEN.reveal(),
        "kubectl.kubernetes.io/last-applied-configuration": TOKEN.reveal(),
    }
    secret = {
        "metadata": {"name": "s", "namespace": "a", "annotations": annotations},
        "type": "kubernetes.io/dockercfg",
        "data": {".dockercfg": data},
    }

    kept = str(project_pull_secret(secret))

    assert "a.example" in kept
    assert not any(part in kept for part in (TOKEN.reveal(), TOKEN.reveal().split(".")[2], data))
