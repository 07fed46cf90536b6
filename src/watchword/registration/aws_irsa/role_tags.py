"""Reads the tags that a hub's administrator wants on the roles of clusters, beside those that name the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from watchword.registration.aws_irsa.errors import InvalidName
from watchword.registration.aws_irsa.identifier import RoleTags

MOST = 46  # IAM allows 50 for a role, and four name hub and cluster
RESERVED_PREFIX = "aws:"
_TEXT = r"[\w .:/+@-]"
_TAG = re.compile(rf"({_TEXT}{{1,128}})=((?:{_TEXT}|=){{0,256}})")  # IAM's limits; a comma separates tags


def parse_tags(rows: Sequence[str]) -> Mapping[str, str]:
    """Return key and value of each `KEY=VALUE`; `InvalidName` when IAM would refuse one, or the hub needs its key."""
    found: dict[str, str] = {}
    for row in rows:
        match = _TAG.fullmatch(row)
        if match is None:
            raise InvalidName(
                f"tag {row[:200]!r} is malformed: write KEY=VALUE with letters, digits, spaces and _ . : / + - @, "
                "at most 128 characters before the = and 256 after it"
            )
        key, value = match.groups()
        if key in RoleTags.__struct_fields__ or key.lower().startswith(RESERVED_PREFIX):
            raise InvalidName(f"tag {key} is reserved: choose another key")
        if found.get(key, value) != value:
            raise InvalidName(f"tag {key} has two values: leave one of them out")
        found[key] = value
    if len(found) > MOST:
        raise InvalidName(f"{len(found)} tags are too many: IAM has room for {MOST} beside those of the cluster")
    return found
