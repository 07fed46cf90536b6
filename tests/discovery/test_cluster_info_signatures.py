from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info
from watchword.discovery.controllers import SignatureDecision, build_signature_patch, decide_signatures
from watchword.discovery.token_secret import TokenRecord, TokenUsage, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.pki.authority import Authority
from watchword.pki.jwt import is_detached_signature, sign_detached

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CA, OTHER_CA = Authority.make("a", now=NOW).certificate, Authority.make("b", now=NOW).certificate
OWN = frozenset({CA.pin})
TEXT = write_cluster_info(ClusterInfo(("https://hub:6443",), (CA,)))
ONE, TWO = BootstrapToken.parse("aaaaa1.q8w3e5r1t0y6u4i2"), BootstrapToken.parse("aaaaa2.z8w3e5r1t0y6u4i2")


def a_map(text: str | None = TEXT, *, refused: str = "", **signatures: str) -> Object:
    data = {f"jws-kubeconfig-{token_id}": signature for token_id, signature in signatures.items()}
    annotations = {"watchword.dev/signing-refused": refused} if refused else {}
    return {
        "metadata": {"uid": "u", "resourceVersion": "7", "annotations": annotations},
        "data": data if text is None else {"kubeconfig": text, **data},
    }


def a_token(token: BootstrapToken, **fields: Any) -> Object:
    return write_token_secret(TokenRecord(token, **fields))


def signed(token: BootstrapToken, text: str = TEXT) -> str:
    return sign_detached(text.encode(), key_id=token.id, secret=token.secret)


def judge(config_map: Object, *secrets: Object) -> SignatureDecision:
    return decide_signatures(config_map, secrets, own_pins=OWN, now=NOW)


def misnamed() -> Object:
    secret = a_token(ONE)
    secret["metadata"]["name"] = "bootstrap-token-zzzzzz"
    return secret


K1, K2 = "jws-kubeconfig-aaaaa1", "jws-kubeconfig-aaaaa2"


@pytest.mark.parametrize(
    ("config_map", "secrets", "changes"),
    [
        pytest.param(a_map(None, aaaaa1="old"), [a_token(ONE)], {}, id="nothing to sign: all is left alone"),
        pytest.param(a_map(), [], {}, id="no tokens"),
        pytest.param(a_map(), [misnamed()], {}, id="a misnamed token"),
        pytest.param(a_map(), [a_token(ONE, usages=(TokenUsage.AUTHENTICATION,))], {}, id="not meant for signing"),
        pytest.param(a_map(), [a_token(ONE, expires=NOW)], {}, id="expires now"),
        pytest.param(a_map(aaaaa1=signed(ONE)), [a_token(ONE, expires=NOW)], {K1: None}, id="signed and expires now"),
        pytest.param(a_map(aaaaa1=signed(ONE)), [], {K1: None}, id="the token is gone"),
        pytest.param(a_map(aaaaa1="wrong"), [a_token(ONE)], {K1: signed(ONE)}, id="a wrong signature"),
        pytest.param(a_map(aaaaa1=signed(ONE, "x")), [a_token(ONE)], {K1: signed(ONE)}, id="the text has changed"),
        pytest.param(a_map(aaaaa1=signed(ONE)), [a_token(ONE)], {}, id="already signed"),
        pytest.param(a_map(), [a_token(ONE), a_token(TWO)], {K1: signed(ONE), K2: signed(TWO)}, id="two at once"),
        pytest.param(a_map(aaaaa1=signed(ONE)), [a_token(TWO)], {K1: None, K2: signed(TWO)}, id="one for another"),
    ],
)
def test_the_signatures_become_those_of_the_tokens_that_may_sign(
    config_map: Object, secrets: list[Object], changes: dict[str, str | None]
) -> None:
    decision = judge(config_map, *secrets)
    assert decision.data == changes
    assert decision.annotation is None


def test_the_signer_comes_back_when_the_first_token_expires() -> None:
    later, soon = a_token(ONE, expires=NOW + 9 * SECOND), a_token(TWO, expires=NOW + 2 * SECOND)
    assert judge(a_map(), later, soon).recheck_in == 2 * SECOND
    assert judge(a_map(), a_token(ONE)).recheck_in is None


FOREIGN = write_cluster_info(ClusterInfo(("https://hub:6443",), (CA, OTHER_CA)))
WITH_TOKEN = TEXT.replace("users: null", "users: [{name: x, user: {token: y}}]")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(FOREIGN, "not this cluster's own", id="another CA beside ours"),
        pytest.param(WITH_TOKEN, "users", id="credentials inside"),
        pytest.param("hello", "not a kubeconfig", id="no kubeconfig"),
        pytest.param("a: [", "not YAML", id="no yaml"),
        pytest.param("clusters: [1]", "certificate-authority-data", id="a number as cluster"),
        pytest.param("clusters: [{cluster: {server: 'https://x'}}]", "embed the cluster's CA", id="no authority"),
        pytest.param(
            TEXT.replace("    server", "    insecure-skip-tls-verify: true\n    server"),
            "clients must verify TLS",
            id="insecure",
        ),
    ],
)
def test_a_text_that_is_not_the_clusters_own_is_not_vouched_for(text: str, complaint: str) -> None:
    decision = judge(a_map(text, aaaaa1=signed(ONE)), a_token(ONE))
    assert decision.data == {K1: None}
    assert complaint in decision.refusal
    assert decision.annotation == decision.refusal


def test_a_cluster_info_of_another_tools_form_is_signed_when_its_authority_is_ours() -> None:
    text = TEXT.replace("name: ''", "name: hub").replace("contexts: null", "contexts: []")
    assert set(judge(a_map(text), a_token(ONE)).data) == {K1}


def test_without_knowing_the_own_authority_nothing_is_signed() -> None:
    decision = decide_signatures(a_map(), [a_token(ONE)], own_pins=frozenset(), now=NOW)
    assert (decision.data, "kube-root-ca.crt" in decision.refusal) == ({}, True)


def test_refusal_is_reported_once_and_withdrawn() -> None:
    refused = judge(a_map("hello"))
    assert judge(a_map("hello", refused=refused.refusal)).annotation is None
    assert judge(a_map(refused=refused.refusal), a_token(ONE)).annotation == ""


def test_many_changes_are_one_patch_for_exactly_this_revision() -> None:
    config_map = a_map(aaaaa1="old", refused="something")
    patch = build_signature_patch(config_map, judge(config_map, a_token(TWO)))
    assert patch == {
        "metadata": {"annotations": {"watchword.dev/signing-refused": None}, "uid": "u", "resourceVersion": "7"},
        "data": {K1: None, K2: signed(TWO)},
    }
    assert build_signature_patch(a_map(aaaaa1=signed(ONE)), judge(a_map(aaaaa1=signed(ONE)), a_token(ONE))) is None


def test_five_hundred_tokens_are_signed_in_one_verdict() -> None:
    tokens = [BootstrapToken.generate() for _ in range(500)]
    decision = judge(a_map(), *(a_token(token) for token in tokens))
    assert len(decision.data) == len({token.id for token in tokens})
    for token in tokens[:5]:
        signature = decision.data[f"jws-kubeconfig-{token.id}"]
        assert signature is not None
        assert is_detached_signature(signature, TEXT.encode(), key_id=token.id, secret=token.secret)


def test_a_secret_in_another_encoding_is_not_signed_for() -> None:
    secret = a_token(ONE)
    secret["data"]["usage-bootstrap-signing"] = base64.b64encode(b"TRUE").decode()
    assert judge(a_map(), secret).data == {}
