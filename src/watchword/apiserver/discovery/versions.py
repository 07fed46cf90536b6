"""The order of API versions: stable before beta before alpha, newer before older."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KUBE_VERSION = re.compile(r"v(\d{1,9})(?:(alpha|beta)(\d{1,9}))?", re.ASCII)
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def by_priority(versions: Iterable[str]) -> list[str]:
    """Return the versions, the preferred one first; names of another form come last, in order."""
    return sorted(set(versions), key=_key)


def _key(version: str) -> tuple[int, int, int, str]:
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    return _STAGES[match[2]], -int(match[1]), -int(match[3] or 0), version
