from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.sensitive import Sensitive
from watchword.pki.errors import KeyRefused
from watchword.pki.keys import KeyType, PrivateKey, PublicKey, validate_key_strength

PKCS8 = serialization.PrivateFormat.PKCS8
TRADITIONAL = serialization.PrivateFormat.TraditionalOpenSSL


def _pem(key: PrivateKeyTypes, layout: serialization.PrivateFormat = PKCS8, password: bytes = b"") -> bytes:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, layout, protection)


EC_KEY = ec.generate_private_key(ec.SECP256R1())
WEAK_RSA = rsa.generate_private_key(65537, 1024)


@pytest.mark.parametrize(
    ("pem", "complaint"),
    [
        pytest.param(b"", "not an unencrypted", id="nothing"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not an unenc", id="garbage"),
        pytest.param(_pem(EC_KEY, password=b"x"), "not an unencrypted", id="encrypted"),
        pytest.param(_pem(WEAK_RSA), "1024 bits is refused", id="short rsa"),
        pytest.param(_pem(ec.generate_private_key(ec.SECP256K1())), "secp256k1 is refused", id="another curve"),
        pytest.param(_pem(dsa.generate_private_key(1024)), "unsupported type", id="dsa"),
        pytest.param(b"x" * 100_000, "too large", id="oversized"),
    ],
)
def test_an_unusable_private_key_is_refused(pem: bytes, complaint: str) -> None:
    with pytest.raises(KeyRefused, match=complaint):
        PrivateKey.from_pem(pem)


@pytest.mark.parametrize(
    ("key", "layout", "kind", "bits"),
    [
        pytest.param(EC_KEY, TRADITIONAL, KeyType.EC, 256, id="ec, sec1"),
        pytest.param(EC_KEY, PKCS8, KeyType.EC, 256, id="ec, pkcs8"),
        pytest.param(ec.generate_private_key(ec.SECP384R1()), PKCS8, KeyType.EC, 384, id="p-384"),
        pytest.param(rsa.generate_private_key(65537, 2048), TRADITIONAL, KeyType.RSA, 2048, id="rsa, pkcs1"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), PKCS8, KeyType.ED25519, 256, id="ed25519"),
    ],
)
def test_usable_keys_survive_being_read_and_written(
    key: PrivateKeyTypes, layout: serialization.PrivateFormat, kind: KeyType, bits: int
) -> None:
    read = PrivateKey.from_pem(Sensitive(_pem(key, layout)))

    again = PrivateKey.from_pem(read.pem)

    assert (again.public, again.public.type, again.public.bits) == (read.public, kind, bits)
    assert PublicKey.from_pem(read.public.pem) == read.public
    assert validate_key_strength(read.public) == ""


def test_openssl_parameters_in_front_of_a_key_are_skipped() -> None:
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    assert PrivateKey.from_pem(parameters + _pem(EC_KEY, TRADITIONAL)).public.type == KeyType.EC


def test_a_private_key_does_not_print_itself() -> None:
    key = PrivateKey.generate()
    assert "***" in repr(key)
    assert key.pem.reveal().decode().splitlines()[1] not in f"{key!r} {key.pem!r} {key}"


def test_each_generated_key_is_new() -> None:
    assert len({PrivateKey.generate().public.thumbprint for _ in range(20)}) == 20


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_arbitrary_bytes_are_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(KeyRefused):
        PrivateKey.from_pem(b"-----BEGIN PRIVATE KEY-----\n" + data)
    with pytest.raises(KeyRefused):
        PublicKey.from_pem(data)
