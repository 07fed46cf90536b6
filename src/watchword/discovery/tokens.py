"""Bootstrap tokens: a public id, a secret, and the refusal of secrets that are none."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from itertools import pairwise

from msgspec import Struct

from watchword.api import bootstrap
from watchword.api.bootstrap import TOKEN_ID_PATTERN, TOKEN_PATTERN
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.api.validation import is_dns_label
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.kube.client import Client
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Reader

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


_PATTERN = re.compile(r"[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?", re.ASCII)
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_LONGEST_PATTERN = 63


class BootstrapTokenLimits(Struct, frozen=True):
    """Limits of a token, kept as annotations that other tools leave alone.

    A pattern is a cluster name in which each `*` stands for any run of letters, digits and dashes,
    also none; it must match the whole name. Limits that cannot be read allow nothing.
    """

    patterns: tuple[str, ...] = ()  # empty: any name
    maximum_uses: int | None = None  # None: any number
    unreadable: str = ""

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, str]) -> BootstrapTokenLimits:
        names = annotations.get(bootstrap.ANNOTATION_ALLOWED_CLUSTERS)
        count = annotations.get(bootstrap.ANNOTATION_MAXIMUM_USES)
        patterns = tuple(part.strip() for part in names.split(",")) if names is not None else ()
        if not all(is_cluster_name_pattern(pattern) for pattern in patterns):
            return cls(
                unreadable=f"its annotation {bootstrap.ANNOTATION_ALLOWED_CLUSTERS} is not a list of name patterns"
            )
        if count is not None and not _COUNT.fullmatch(count):
            return cls(unreadable=f"its annotation {bootstrap.ANNOTATION_MAXIMUM_USES} is not a positive number")
        return cls(patterns, None if count is None else int(count))

    def to_annotations(self) -> dict[str, str]:
        annotations = {}
        if self.patterns:
            annotations[bootstrap.ANNOTATION_ALLOWED_CLUSTERS] = ",".join(self.patterns)
        if self.maximum_uses is not None:
            annotations[bootstrap.ANNOTATION_MAXIMUM_USES] = str(self.maximum_uses)
        return annotations


UNLIMITED = BootstrapTokenLimits()


def is_cluster_name_pattern(text: str) -> bool:
    return len(text) <= _LONGEST_PATTERN and _PATTERN.fullmatch(text) is not None


def validate_token_use(limits: BootstrapTokenLimits, cluster: str, *, other_clusters: int) -> str:
    """Return in one sentence why a token may not bring in a cluster; empty when it may.

    `other_clusters` counts the clusters that this token has brought in before, without this one.
    """
    if limits.unreadable:
        return f"the token brings in no cluster: {limits.unreadable}"
    if limits.patterns and not (is_dns_label(cluster) and any(_matches(p, cluster) for p in limits.patterns)):
        return f"the token is bound to {', '.join(limits.patterns)}, not to {cluster}: create a token for that name"
    if limits.maximum_uses is not None and other_clusters >= limits.maximum_uses:
        return f"the token has been used {other_clusters} times of {limits.maximum_uses}: create a new one"
    return ""


def _matches(pattern: str, name: str) -> bool:
    """Match greedily from both ends: linear in the name, whatever the pattern."""
    if "*" not in pattern:
        return pattern == name
    head, *middle, tail = pattern.split("*")
    if len(name) < len(head) + len(tail) or not name.startswith(head) or not name.endswith(tail):
        return False
    rest = name[len(head) : len(name) - len(tail)]
    for part in middle:
        found = rest.find(part)
        if found < 0:
            return False
        rest = rest[found + len(part) :]
    return True


class BootstrapTokenValidator(Struct, frozen=True):
    """Decides for one requester and one cluster, and keeps the record of uses on the token itself."""

    reader: Reader
    client: Client

    async def __call__(self, requester: str, cluster: str) -> str | None:
        """Return why this requester may not register the cluster, or None after noting that it does."""
        key = token_secret_key_of(requester)
        if key is None:
            return None  # not a bootstrap token: the allow-list alone decides
        return await record_token_use(self.client, self.reader.get(SECRETS, key), requester, cluster)


def token_secret_key_of(requester: str) -> ObjectKey | None:
    """Return where the token lies by which a requester authenticated; None when it was no bootstrap token."""
    token = requester.removeprefix(bootstrap.USER_PREFIX)
    return None if token == requester else bootstrap.token_secret_key(token)


async def record_token_use(
    client: Client, secret: Object | None, requester: str, cluster: str, *, dry_run: bool = False
) -> str | None:
    """Return why the token may not bring in the cluster, or None after noting that it does.

    The use is written down before it happens: a crash in between costs a use, never grants one.
    """
    if secret is None:
        return f"the token {requester.removeprefix(bootstrap.USER_PREFIX)} is gone: create a new one"
    used = set(filter(None, annotations_of(secret).get(bootstrap.ANNOTATION_USED_BY, "").split(",")))
    limits = BootstrapTokenLimits.from_annotations(annotations_of(secret))
    objection = validate_token_use(limits, cluster, other_clusters=len(used - {cluster}))
    if objection:
        return objection
    if limits.maximum_uses is not None and cluster not in used:
        annotations = {bootstrap.ANNOTATION_USED_BY: ",".join(sorted(used | {cluster}))}
        patch = with_preconditions(secret, {"metadata": {"annotations": annotations}})
        await client.patch(SECRETS, ObjectKey.of(secret), patch, dry_run=dry_run)
    return None
