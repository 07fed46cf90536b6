"""Bootstrap tokens: a public id, a secret, and the refusal of secrets that are none."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

from watchword.api.bootstrap import TOKEN_ID_PATTERN, TOKEN_PATTERN
from watchword.api.sensitive import Sensitive
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_FAIR_BYTES = 256 - 256 % len(_ALPHABET)  # bytes from here on would favour the first letters
_ID_LENGTH = 6
_SECRET_LENGTH = 16

_FEWEST_LETTERS = 6
_LONGEST_RUN = 6
# Printed in manuals and designs, hence in every attacker's list.
_SAMPLES = frozenset(
    {
        "abcdef.0123456789abcdef",
        "abcdef.abcdef0123456789",
        "abcdef.1234567890abcdef",
        "ae23dc.faddc87f5a5ab458",
        "07401b.f395accd246ae52d",
        "9a08jv.c0izixklcxtmnze7",
        "5didvk.d09sbcov8ph2amjw",
        "8ewj1p.9r9hcjoqgajrj4gi",
        "b0f7b8.8d1767876297d85c",
        "f395ac.cd246ae52d07401b",
        "123456.aa12bb34cc56dd78",
    }
)


class BootstrapToken(Struct, frozen=True):
    """Lets its holder verify a cluster and, where so marked, request a certificate.

    Prints as `id.***`; a holder of the secret may claim any name that is not taken yet.
    """

    id: str
    secret: Sensitive[str]

    @classmethod
    def parse(cls, text: str) -> BootstrapToken:
        """Read `id.secret`; raise `BootstrapTokenRefused` for any other form."""
        found = TOKEN_PATTERN.fullmatch(text)
        if found is None:
            raise BootstrapTokenRefused(
                DiscoveryReason.TOKEN_MALFORMED,
                "the bootstrap token is malformed: it must be 6 and 16 lower-case letters or digits, joined by a dot; "
                "`watchword token generate` makes one",
            )
        return cls(found.group(1), Sensitive(found.group(2)))

    @classmethod
    def generate(cls, randomness: Callable[[int], bytes] = secrets.token_bytes) -> BootstrapToken:
        return cls(_draw(_ID_LENGTH, randomness), Sensitive(_draw(_SECRET_LENGTH, randomness)))

    def reveal(self) -> str:
        """Return `id.secret`, for the wire or for explicit display."""
        return f"{self.id}.{self.secret.reveal()}"

    def __str__(self) -> str:
        return f"{self.id}.{self.secret}"


def parse_token_id(text: str) -> str:
    """Return the id in an id or in a whole token; raise `BootstrapTokenRefused` for anything else."""
    if TOKEN_ID_PATTERN.fullmatch(text):
        return text
    found = TOKEN_PATTERN.fullmatch(text)
    if found is None:
        raise BootstrapTokenRefused(
            DiscoveryReason.TOKEN_MALFORMED,
            "give a token id (6 lower-case letters or digits) or a whole token; `watchword token list` shows them",
        )
    return found.group(1)


def validate_token_strength(token: BootstrapToken) -> str:
    """Return in one sentence why a given token is too easy to guess; empty when it is not.

    Signatures made with a token are public, so that a guess can be checked offline.
    """
    secret = token.secret.reveal()
    if token.reveal() in _SAMPLES or any(secret == sample.partition(".")[2] for sample in _SAMPLES):
        return "this token is printed in manuals: let `watchword token generate` make one"
    if len(set(secret)) < _FEWEST_LETTERS:
        return "this token uses too few different characters: let `watchword token generate` make one"
    if any(secret == secret[:period] * (len(secret) // period) for period in (1, 2, 4, 8)):
        return "this token repeats itself: let `watchword token generate` make one"
    if _longest_run(secret) > _LONGEST_RUN:
        return "this token counts or spells the alphabet: let `watchword token generate` make one"
    return ""


def _longest_run(text: str) -> int:
    """Length of the longest stretch in which each character follows, precedes or repeats the one before."""
    best = 1
    for step in (-1, 0, 1):
        length = 1
        for before, after in pairwise(text):
            length = length + 1 if _ALPHABET.index(after) - _ALPHABET.index(before) == step else 1
            best = max(best, length)
    return best


def _draw(length: int, randomness: Callable[[int], bytes]) -> str:
    letters = ""
    while len(letters) < length:
        letters += "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in randomness(length * 2) if byte < _FAIR_BYTES)
    return letters[:length]
