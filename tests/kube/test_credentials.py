"""Credentials in files that others rewrite, and TLS contexts made of them."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchword.api.sensitive import Sensitive
from watchword.kube.credentials import StoredCredential, basic, bearer, impersonation
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import ConfigError
from watchword.kube.files import WatchedFile
from watchword.kube.tls import ClientCertificate, ContextCache, Trust, make_context
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey

ENCRYPTED_KEY = b"""-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF

AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
-----END EC PRIVATE KEY-----
"""


async def authorization(source: StoredCredential) -> Sensitive[str] | None:
    return (await source.current()).authorization


async def test_a_rotated_token_is_used_within_a_second(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    source = StoredCredential(token=WatchedFile(file, "token file"))

    before = await authorization(source)
    file.write_text("new!")
    at_once = await authorization(source)
    await asyncio.sleep(1)

    assert (before, at_once) == (Sensitive("Bearer old"), Sensitive("Bearer old"))
    assert await authorization(source) == Sensitive("Bearer new!")


async def test_a_volume_that_rotates_by_swapping_a_link_is_followed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    (tmp_path / "data").symlink_to("old")
    source = StoredCredential(token=WatchedFile(tmp_path / "data" / "token", "token file"))
    rejected = await source.current()

    (tmp_path / "swap").symlink_to("new")
    (tmp_path / "swap").replace(tmp_path / "data")
    renewed = await source.renewed(rejected)

    assert renewed is not None
    assert renewed.authorization == Sensitive("Bearer new")


@pytest.mark.parametrize("problem", ["missing", "empty"])
async def test_the_last_good_token_survives_a_bad_moment(tmp_path: Path, problem: str) -> None:
    file = tmp_path / "token"
    file.write_text("good")
    source = StoredCredential(token=WatchedFile(file, "token file"))
    held = await source.current()

    file.unlink() if problem == "missing" else file.write_text("")

    assert await source.renewed(held) is None
    assert await authorization(source) == Sensitive("Bearer good")


@pytest.mark.parametrize(("content", "sentence"), [(None, "cannot be read: no such file"), ("", "is empty")])
async def test_a_token_that_never_was_is_an_error(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)

    with pytest.raises(ConfigError, match=sentence):
        await StoredCredential(token=WatchedFile(tmp_path / "token", "token file")).current()


def test_a_missing_authority_file_never_means_the_systems_authorities(tmp_path: Path) -> None:
    endpoint = Endpoint("https://host", ca=WatchedFile(tmp_path / "ca.crt", "certificate authority"))

    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot be read"):
            endpoint.trust()


@pytest.mark.parametrize("text", [b"", b" ", b"a b", b"a\nb", b"\xff", b"a\x00"])
def test_what_cannot_be_a_token_is_refused_unseen(text: bytes) -> None:
    with pytest.raises(ConfigError, match="bearer token is empty or holds characters"):
        bearer(text)


def test_a_password_and_an_impersonation_become_headers() -> None:
    assert basic("me", Sensitive("secret")).reveal() == "Basic bWU6c2VjcmV0"
    assert impersonation("u", "1", ("g", "h"), {"k": ("v",)}) == (
        ("Impersonate-User", "u"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-k", "v"),
    )


def test_impersonation_cannot_inject_a_header() -> None:
    with pytest.raises(ConfigError, match="no HTTP header may have"):
        impersonation("u\r\nAuthorization: x", "", (), {})


def test_one_context_is_made_per_credential() -> None:
    contexts = ContextCache()
    pem = Authority.make("a", now=datetime.now(UTC)).certificate.pem

    first = contexts.get(Trust(pem), None)

    assert contexts.get(Trust(bytes(bytearray(pem))), None) is first
    assert contexts.get(Trust(insecure=True), None) is not first
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname


@pytest.mark.parametrize(
    ("trust", "certificate", "sentence"),
    [
        pytest.param(Trust(b"no pem"), None, "holds no usable PEM", id="a bundle of words"),
        pytest.param(
            Trust(insecure=True),
            ClientCertificate(b"c", Sensitive(b"k")),
            "not usable PEM",
            id="a certificate of words",
        ),
    ],
)
def test_bad_pem_is_one_sentence(trust: Trust, certificate: ClientCertificate | None, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make_context(trust, certificate)


def test_a_key_of_another_certificate_or_an_encrypted_one_is_named() -> None:
    chain = Authority.make("a", now=datetime.now(UTC)).certificate.pem

    with pytest.raises(ConfigError, match="do not belong together"):
        make_context(Trust(insecure=True), ClientCertificate(chain, PrivateKey.generate().pem))
    with pytest.raises(ConfigError, match="is encrypted"):
        make_context(Trust(insecure=True), ClientCertificate(chain, Sensitive(ENCRYPTED_KEY)))
