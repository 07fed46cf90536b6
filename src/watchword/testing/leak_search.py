"""Searches what a test leaves for people and programs to read: objects, Events, log, metrics, arguments of programs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from watchword.api.bootstrap import KEY_TOKEN_SECRET
from watchword.api.meta import Object, ObjectKey
from watchword.testing.canary import SHORTEST, Canary
from watchword.testing.errors import SecretLeaked

KEY_OR_TOKEN = re.compile(rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----|eyJhbGciOi[\w-]{8,}\.[\w-]{8,}\.([\w-]{8,})")
"""A private key, or a token with its signature: the signatures of cluster-info have no content in the middle."""

IN_BASE64 = re.compile(rb"LS0tLS1CRUdJTiB(?:QUklWQVRFIEtFWS|FQyBQUklWQVRFIEtFWS|SU0EgUFJJVkFURSBLRVk)|ZXlKaGJHY2lPaU")
"""The same in base64, at the alignment that the data of an object has."""

MOST_VALUES = 40  # for each test: what is left over is found by its form


class LeakSearch:
    """Knows the secrets of one control plane; finds them, and every key and token, where none may be."""

    def __init__(self) -> None:
        self._canary = Canary()
        self._known: set[bytes] = set()

    def learn(self, secret: Object) -> None:
        """Remember the values of a Secret that could be recognised without their form."""
        key = ObjectKey.of(secret)
        for value in secret_values(secret):
            if len(value) >= SHORTEST and value not in self._known and len(self._known) < MOST_VALUES:
                self._known.add(value)
                self._canary.look_for(f"Secret {key} ({len(self._known)})", value)

    def find(self, place: str, text: bytes) -> list[str]:
        """Return what was found in a text; the secret itself is not part of it."""
        found = [f"the secret of {label} can be read in {place}" for label in self._canary.found_in(text)]
        if KEY_OR_TOKEN.search(text) or IN_BASE64.search(text):
            found.append(f"a private key or a token can be read in {place}")
        return found

    def require_none(self, place: str, text: bytes) -> None:
        """Raise `SecretLeaked` when a text shows a secret."""
        found = self.find(place, text)
        if found:
            raise SecretLeaked("; ".join(found))


def secret_values(secret: Object) -> Iterator[bytes]:
    """Yield what is secret in a Secret: bootstrap tokens, signatures of tokens, a line of each private key."""
    for name, encoded in (secret.get("data") or {}).items():
        try:
            value = base64.b64decode(encoded)
        except (TypeError, binascii.Error):
            continue
        if name == KEY_TOKEN_SECRET:
            yield value
        for match in KEY_OR_TOKEN.finditer(value):
            yield match[1] or value[match.end() :].strip().partition(b"\n")[0]


def log_lines(text: str) -> Iterable[str]:
    """Return the lines of a captured output that a program logged; what a command prints may be a secret."""
    return (line for line in text.splitlines() if line.startswith("{") and '"event": ' in line)
