"""Recognisable secrets, which a test plants to detect leaks."""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterable
from urllib.parse import quote

import orjson

from watchword.api import resources
from watchword.api.meta import Resource
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.testing.errors import SecretLeaked

_ALPHABET = string.ascii_lowercase + string.digits
SHORTEST = 8  # below that, a match could be chance


class Canary:
    """Plants secrets and recognises every encoding in which one might leak."""

    def __init__(self) -> None:
        self._planted: dict[str, tuple[bytes, ...]] = {}

    def plant(self, label: str) -> str:
        """Return a new secret; `label` is its name in a finding."""
        value = f"canary-{secrets.token_hex(16)}"
        self.look_for(label, value)
        return value

    def plant_bootstrap_token(self, label: str) -> str:
        """Return a new bootstrap token; only its second half is secret."""
        token_id, secret = (_random_word(length) for length in (6, 16))
        self.look_for(label, secret)
        return f"{token_id}.{secret}"

    def look_for(self, label: str, value: str | bytes | Sensitive[str] | Sensitive[bytes]) -> None:
        """Treat a value that the product itself generated (a token, a key) as planted."""
        revealed = value.reveal() if isinstance(value, Sensitive) else value
        raw = revealed.encode() if isinstance(revealed, str) else revealed
        if len(raw) < SHORTEST:
            raise ValueError(f"a canary needs {SHORTEST} characters or more to be recognised")
        self._planted[label] = tuple(_forms(raw))

    def found_in(self, text: str | bytes) -> list[str]:
        """Return the labels of all planted secrets that the text contains."""
        raw = text.encode() if isinstance(text, str) else text
        return [label for label, forms in self._planted.items() if any(form in raw for form in forms)]

    def assert_not_leaked(self, place: str, text: str | bytes) -> None:
        """Raise `SecretLeaked` when the text contains a planted secret."""
        found = self.found_in(text)
        if found:
            raise SecretLeaked(f"{place} shows the secret of {', '.join(found)}")

    async def assert_cluster_not_leaking(self, client: Client, *kinds: Resource) -> None:
        """Search Events and all objects of these kinds; Secrets are never searched."""
        for kind in (resources.CORE_EVENTS, *kinds):
            for obj in (await client.list(kind)).items:
                name = (obj.get("metadata") or {}).get("name")
                self.assert_not_leaked(f"{kind.kind} {name}", orjson.dumps(obj))


def _random_word(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _forms(raw: bytes) -> Iterable[bytes]:
    """Yield the value unchanged, hexadecimal, percent-encoded, and in base64 at each of three alignments."""
    yield raw
    yield raw.hex().encode()
    yield quote(raw, safe="").encode()
    for shift in range(3):
        # The characters at both ends also depend on the bytes around the secret.
        whole = slice((shift * 8 + 5) // 6, (shift + len(raw)) * 8 // 6)
        yield base64.b64encode(bytes(shift) + raw)[whole]
        yield base64.urlsafe_b64encode(bytes(shift) + raw)[whole]
