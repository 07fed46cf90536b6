"""Encrypts stored data with AES-256-GCM; several keys are known while one replaces another."""

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from watchword.api.sensitive import Sensitive
from watchword.pki.errors import DecryptionFailed, KeyRefused

PREFIX = b"enc:aesgcm:v1:"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_ID_BYTES = 16


class EncryptionKeys:
    """Encrypts with the first key and decrypts with any."""

    def __init__(self, keys: Sequence[Sensitive[bytes]]) -> None:
        self._ciphers = {_identify(key): AESGCM(key.reveal()) for key in keys}
        self._first = _identify(keys[0])

    def encrypt(self, data: bytes, context: bytes) -> bytes:
        """Return the data encrypted; the same `context` is needed to decrypt it."""
        nonce = os.urandom(_NONCE_BYTES)
        return PREFIX + self._first + nonce + self._ciphers[self._first].encrypt(nonce, data, context)

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """Return what was encrypted; raises `DecryptionFailed` for another key, another context or a change."""
        rest = data[len(PREFIX) :]
        cipher = self._ciphers.get(rest[:_ID_BYTES])
        if cipher is None:
            raise DecryptionFailed("no key of the key file encrypted this: add the key that did")
        nonce, sealed = rest[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], rest[_ID_BYTES + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, sealed, context)
        except (InvalidTag, ValueError) as cause:
            raise DecryptionFailed("encrypted data was changed or belongs elsewhere") from cause

    def is_current(self, data: bytes) -> bool:
        return data.startswith(PREFIX + self._first)


def is_encrypted(data: bytes) -> bool:
    return data.startswith(PREFIX)


def parse_encryption_keys(text: bytes) -> EncryptionKeys:
    """Read keys, one per line in base64, the one in use first; raises `KeyRefused`."""
    keys: list[Sensitive[bytes]] = []
    for line in text.split():
        try:
            key = base64.b64decode(line, validate=True)
        except binascii.Error as cause:
            raise KeyRefused(
                "a line of the key file is not base64: make keys with `openssl rand -base64 32`"
            ) from cause
        if len(key) != _KEY_BYTES:
            raise KeyRefused("a key of the key file has not 32 bytes: make keys with `openssl rand -base64 32`")
        keys.append(Sensitive(key))
    if not keys:
        raise KeyRefused("the key file holds no key: make one with `openssl rand -base64 32`")
    return EncryptionKeys(keys)


def _identify(key: Sensitive[bytes]) -> bytes:
    return hashlib.sha256(b"watchword encryption key " + key.reveal()).hexdigest()[:_ID_BYTES].encode()
