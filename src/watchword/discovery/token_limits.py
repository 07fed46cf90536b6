"""Which clusters a token may bring in, and how many of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from watchword.api.bootstrap import ANNOTATION_ALLOWED_CLUSTERS, ANNOTATION_MAXIMUM_USES
from watchword.api.validation import is_dns_label

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
        """Read the limits from a token Secret's annotations."""
        names = annotations.get(ANNOTATION_ALLOWED_CLUSTERS)
        count = annotations.get(ANNOTATION_MAXIMUM_USES)
        patterns = tuple(part.strip() for part in names.split(",")) if names is not None else ()
        if not all(is_cluster_name_pattern(pattern) for pattern in patterns):
            return cls(unreadable=f"its annotation {ANNOTATION_ALLOWED_CLUSTERS} is not a list of name patterns")
        if count is not None and not _COUNT.fullmatch(count):
            return cls(unreadable=f"its annotation {ANNOTATION_MAXIMUM_USES} is not a positive number")
        return cls(patterns, None if count is None else int(count))

    def to_annotations(self) -> dict[str, str]:
        """Write the limits, nothing when there are none."""
        annotations = {}
        if self.patterns:
            annotations[ANNOTATION_ALLOWED_CLUSTERS] = ",".join(self.patterns)
        if self.maximum_uses is not None:
            annotations[ANNOTATION_MAXIMUM_USES] = str(self.maximum_uses)
        return annotations


UNLIMITED = BootstrapTokenLimits()


def is_cluster_name_pattern(text: str) -> bool:
    """Whether a text is a cluster name, or one with `*` in it."""
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
