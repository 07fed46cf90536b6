"""Which keys sign service account tokens now, and when tokens of a replaced key get another one."""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.meta import Object
from watchword.api.pull_secrets import SIGNING_KEY_FIELD
from watchword.pki import keys as pem

KEY_IDS = "keyIds"


class SignerTiming(Struct, frozen=True):
    """How quickly a change of the signing key is believed, and over how long tokens are replaced."""

    settle: timedelta = timedelta(minutes=5)  # a key that signed a token this recently still signs
    spread: timedelta = timedelta(minutes=5)  # from the moment at which a key signs no more
    poll: timedelta = timedelta(minutes=1)


class SigningKeys(Struct):
    """What is known of the keys; knowing nothing never makes a token bad.

    A key signs now when the signing key Secret holds it, or when a token of it was issued lately. While API servers
    disagree during a rotation both keys sign, so a new token is good whichever server issued it.
    """

    timing: SignerTiming = field(default_factory=SignerTiming)
    declared: frozenset[str] = frozenset()  # by the signing key Secret
    published: frozenset[str] = frozenset()  # by the server's key set; empty when it is not readable
    _issued: dict[str, datetime] = field(default_factory=dict)
    _signing: frozenset[str] = frozenset()
    _changed_at: datetime | None = None
    _is_news: bool = False

    def observe_token(self, key_id: str, *, now: datetime) -> None:
        """Note that a server has just signed a token with this key: it is good from now on."""
        self._issued[key_id] = now

    def update(self, *, now: datetime) -> None:
        """Drop keys that have not signed lately, and note when the keys that sign are others than before.

        Tokens of a dropped key are replaced from this instant on, so every pull secret has to be triggered now.
        """
        self._issued = {key: at for key, at in self._issued.items() if now - at < self.timing.settle}
        signing = frozenset(self._issued) | self.declared
        if signing and signing != self._signing:
            self._signing, self._changed_at, self._is_news = signing, now, True

    def take_news(self) -> bool:
        """Return whether the keys that sign have changed since the last call."""
        news, self._is_news = self._is_news, False
        return news

    def was_issued_since(self, instant: datetime) -> bool:
        """Whether a token was issued since then, so nothing has to be asked to know a key that signs."""
        return any(at >= instant for at in self._issued.values())

    def replacement_time(self, key_id: str, *, seed: str, now: datetime) -> datetime | None:
        """Return when a token of that key gets another one, None while its key is good.

        A token whose key the server no longer publishes fails already and is replaced at once.
        """
        if not self._signing or key_id in self._signing or key_id in self._issued or self._changed_at is None:
            return None
        if self.published and key_id not in self.published:
            return now
        return self._changed_at + self.timing.spread * _draw(seed)


def project_signing_key(secret: Object) -> Object:
    """Keep the ids of the public keys; the private key beside them never enters the cache."""
    text = (secret.get("data") or {}).get(SIGNING_KEY_FIELD, "")
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {}, KEY_IDS: sorted(read_key_ids(text))}


def read_key_ids(encoded: str) -> frozenset[str]:
    """Return the `kid` of every public key in a base64 text of PEM blocks.

    The label of a block is not trusted: OpenShift writes RSA PUBLIC KEY around a SubjectPublicKeyInfo.
    """
    try:
        text = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return frozenset()
    return frozenset(_key_id(der) for label, der in pem.blocks(text) if label.endswith("PUBLIC KEY"))


def declared_key_ids(secret: Object | None) -> frozenset[str]:
    """Return the key ids that the projection noted."""
    return frozenset() if secret is None else frozenset(secret.get(KEY_IDS) or ())


def _key_id(der: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def _draw(seed: str) -> float:
    return int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=7).digest(), "big") / 2**56
