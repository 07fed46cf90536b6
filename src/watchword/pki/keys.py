"""Key pairs: generated, parsed, written, identified by the hash of the public key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from msgspec import Struct

from watchword.api.sensitive import Sensitive
from watchword.pki.errors import KeyRefused, PinRefused

MAXIMUM_KEY_BYTES = 64 * 1024
SHORTEST_RSA_BITS = 2048
LONGEST_RSA_BITS = 4096  # verifying with a larger key would take a server too long

_AnyPublic: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
_AnyPrivate: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
_CURVES = (ec.SECP256R1, ec.SECP384R1)
_UNSUPPORTED = "the key is of an unsupported type: use EC P-256, Ed25519 or RSA with 2048 bits or more"
CERTIFICATE = "CERTIFICATE"
CERTIFICATE_REQUEST = "CERTIFICATE REQUEST"
_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,64})-----\r?\n")
_PIN = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII | re.IGNORECASE)


class KeyType(StrEnum):
    """The supported types of keys."""

    EC = "EC"
    RSA = "RSA"
    ED25519 = "Ed25519"


@dataclass(frozen=True, eq=False)
class PublicKey:
    """A public key; two are equal when their SubjectPublicKeyInfo is."""

    handle: _AnyPublic

    @classmethod
    def from_pem(cls, pem: bytes) -> PublicKey:
        """Read a PUBLIC KEY block; raise `KeyRefused` for anything else."""
        _refuse_oversized(pem)
        try:
            return cls.wrap(serialization.load_pem_public_key(pem))
        except (ValueError, UnsupportedAlgorithm) as cause:
            raise KeyRefused("the text is not a PEM public key") from cause

    @classmethod
    def wrap(cls, handle: PublicKeyTypes) -> PublicKey:
        if isinstance(handle, ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey):
            return cls(handle)
        raise KeyRefused(_UNSUPPORTED)

    @cached_property
    def spki(self) -> bytes:
        """The DER SubjectPublicKeyInfo, from which pins and thumbprints are computed."""
        return self.handle.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)

    @property
    def pem(self) -> bytes:
        return self.handle.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    @property
    def type(self) -> KeyType:
        if isinstance(self.handle, ec.EllipticCurvePublicKey):
            return KeyType.EC
        return KeyType.RSA if isinstance(self.handle, rsa.RSAPublicKey) else KeyType.ED25519

    @property
    def bits(self) -> int:
        return 256 if isinstance(self.handle, ed25519.Ed25519PublicKey) else self.handle.key_size

    @cached_property
    def thumbprint(self) -> str:
        return hashlib.sha256(self.spki).hexdigest()

    @property
    def key_id(self) -> str:
        """The `kid` under which Kubernetes publishes a signing key: the same hash in base64url."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.spki).digest()).rstrip(b"=").decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.spki == other.spki

    def __hash__(self) -> int:
        return hash(self.spki)

    def __repr__(self) -> str:
        return f"PublicKey({self.type} {self.bits} {self.thumbprint[:16]})"


class PrivateKey(Struct, frozen=True, eq=False, dict=True):
    """A private key; its PEM is a `Sensitive`."""

    handle: _AnyPrivate

    @classmethod
    def generate(cls) -> PrivateKey:
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def generate_rsa(cls, bits: int = SHORTEST_RSA_BITS) -> PrivateKey:
        return cls(rsa.generate_private_key(public_exponent=65537, key_size=bits))

    @classmethod
    def from_pem(cls, pem: bytes | Sensitive[bytes]) -> PrivateKey:
        """Read an unencrypted EC, RSA or Ed25519 key; raise `KeyRefused` for others and for weak ones."""
        raw = pem.reveal() if isinstance(pem, Sensitive) else pem
        _refuse_oversized(raw)
        marker = b"-----END EC PARAMETERS-----"  # openssl writes that block in front
        try:
            handle = serialization.load_pem_private_key(raw.partition(marker)[2] or raw, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as cause:
            raise KeyRefused("the text is not an unencrypted PEM private key") from cause
        if not isinstance(handle, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
            raise KeyRefused(_UNSUPPORTED)
        key = cls(handle)
        weakness = validate_key_strength(key.public)
        if weakness:
            raise KeyRefused(weakness)
        return key

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey(self.handle.public_key())

    @property
    def pem(self) -> Sensitive[bytes]:
        """The key as Go's tools write it: EC/RSA PRIVATE KEY, or PKCS #8 for Ed25519."""
        old_style = self.public.type != KeyType.ED25519
        layout = serialization.PrivateFormat.TraditionalOpenSSL if old_style else serialization.PrivateFormat.PKCS8
        return Sensitive(self.handle.private_bytes(serialization.Encoding.PEM, layout, serialization.NoEncryption()))

    @property
    def digest(self) -> hashes.SHA256 | None:
        """The hash that signatures of this key use; None where the algorithm brings its own."""
        return None if isinstance(self.handle, ed25519.Ed25519PrivateKey) else hashes.SHA256()

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.type} *** {self.public.thumbprint[:16]})"


def validate_key_strength(key: PublicKey) -> str:
    """Return why a key is not accepted, in one sentence; empty when it is accepted."""
    if isinstance(key.handle, rsa.RSAPublicKey) and not SHORTEST_RSA_BITS <= key.bits <= LONGEST_RSA_BITS:
        return f"an RSA key of {key.bits} bits is refused: use {SHORTEST_RSA_BITS} to {LONGEST_RSA_BITS}, or EC P-256"
    if isinstance(key.handle, ec.EllipticCurvePublicKey) and not isinstance(key.handle.curve, _CURVES):
        return f"the curve {key.handle.curve.name} is refused: use P-256 or P-384"
    return ""


def _refuse_oversized(pem: bytes) -> None:
    if len(pem) > MAXIMUM_KEY_BYTES:
        raise KeyRefused("the text is far too large for a key: is this the right file?")


def blocks(pem: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (type, DER) of each readable block; text around blocks is ignored, as OpenSSL does."""
    position = 0
    while (begin := _BEGIN.search(pem, position)) is not None:
        marker = b"-----END %s-----" % begin[1]
        end = pem.find(marker, begin.end())
        if end < 0:  # another block may begin behind it
            position = begin.end()
            continue
        body, position = pem[begin.end() : end], end + len(marker)
        if b"-----BEGIN" in body or b":" in body:  # nested blocks or headers: neither is plain DER
            continue
        with suppress(binascii.Error):
            yield begin[1].decode(), base64.b64decode(b"".join(body.split()), validate=True)


def first_block(pem: bytes, kind: str) -> bytes | None:
    """Return the DER of the first block when it is of that type, None otherwise."""
    return next((der if found == kind else None for found, der in blocks(pem)), None)


def armour(der: bytes, kind: str = CERTIFICATE) -> bytes:
    text = base64.b64encode(der)
    lines = b"\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (kind.encode(), lines, kind.encode())


class Pin(Struct, frozen=True, order=True):
    """Identifies a public key by its hash; printed as kubeadm prints it."""

    digest: str  # 64 lower-case hexadecimal digits

    def __str__(self) -> str:
        return f"sha256:{self.digest}"

    @classmethod
    def of(cls, key: PublicKey) -> Pin:
        return cls(key.thumbprint)

    @classmethod
    def parse(cls, text: str) -> Pin:
        """Read `sha256:<hex>`; raise `PinRefused` for any other form."""
        found = _PIN.fullmatch(text)
        if found is None:
            raise PinRefused(
                "a CA pin must be sha256: followed by 64 hexadecimal digits; `watchword token create "
                "--print-join-command` prints it"
            )
        return cls(found.group(1).lower())


def is_pinned(keys: Iterable[PublicKey], pins: Iterable[Pin]) -> bool:
    wanted = set(pins)
    return any(Pin.of(key) in wanted for key in keys)
