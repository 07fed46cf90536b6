"""Public key pins: `sha256:` and the hash of a SubjectPublicKeyInfo."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from watchword.pki.errors import PinRefused
from watchword.pki.keys import PublicKey

_PIN = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII | re.IGNORECASE)


class Pin(Struct, frozen=True, order=True):
    """Identifies a public key by its hash; printed as kubeadm prints it."""

    digest: str  # 64 lower-case hexadecimal digits

    def __str__(self) -> str:
        return f"sha256:{self.digest}"

    @classmethod
    def of(cls, key: PublicKey) -> Pin:
        """Return the pin of a key."""
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
    """Whether at least one of the keys is among the pins."""
    wanted = set(pins)
    return any(Pin.of(key) in wanted for key in keys)
