"""Lists of a strategic merge patch: scalars merged as sets, everything put in order."""

from __future__ import annotations

from typing import Any

from watchword.api.json import show
from watchword.apiserver.patching.strategic_directives import no_merge_key


def merge_scalars(present: list[Any], patch: list[Any]) -> list[Any]:
    """Return the present items, then the new ones, each once."""
    return list({show(item): item for item in [*present, *patch]}.values())


def remove_scalars(present: list[Any], doomed: list[Any]) -> list[Any]:
    """Return the present items that are not to be deleted."""
    gone = {show(item) for item in doomed}
    return [item for item in present if show(item) not in gone]


def arrange(merged: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Put items of the patch in the patch's order, and the others around them as they stood before."""
    wanted = {_identity(item, key): place for place, item in reversed(list(enumerate(order)))}
    stood = {_identity(item, key): place for place, item in reversed(list(enumerate(before)))}
    told = [(_identity(item, key), item) for item in merged]
    ours = sorted((pair for pair in told if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    theirs = sorted((pair for pair in told if pair[0] not in wanted), key=lambda pair: stood.get(pair[0], len(stood)))
    arranged: list[Any] = []
    left, right = 0, 0
    while left < len(theirs) and right < len(ours):
        mine, other = stood.get(theirs[left][0]), stood.get(ours[right][0])
        if mine is not None and other is not None and mine < other:
            arranged.append(theirs[left][1])
            left += 1
        else:
            arranged.append(ours[right][1])
            right += 1
    return [*arranged, *(item for _, item in ours[right:]), *(item for _, item in theirs[left:])]


def _identity(item: Any, key: str) -> str:
    if key and type(item) is dict:
        if key not in item:
            raise no_merge_key(item, key)
        return show(item[key])
    return show(item)
