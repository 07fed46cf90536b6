"""How many pods of the new and of the old kind a deployment has next."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.meta import Object
from watchword.apiserver.node.pod_factory import ALPHABET

HASH_LABEL = "pod-template-hash"


class Limits(Struct, frozen=True):
    """How far a rollout may deviate from the desired number."""

    surge: int
    unavailable: int


class Count(Struct, frozen=True):
    """One replica set in numbers."""

    wanted: int
    available: int


def template_hash(template: Object, collisions: int = 0) -> str:
    """Return a short name for a pod template; equal templates have equal names."""
    content = orjson.dumps([template, collisions], option=orjson.OPT_SORT_KEYS)
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in hashlib.sha256(content).digest()[:10])


def choose_limits(spec: Object) -> Limits:
    """Read the limits of a rolling update, in pods."""
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    replicas = int(spec.get("replicas") or 0)
    surge = _pods(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = _pods(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    return Limits(surge, unavailable or (0 if surge else 1))


def _pods(value: Any, replicas: int, *, round_up: bool) -> int:
    if isinstance(value, int):
        return value
    share = replicas * int(str(value).rstrip("%")) / 100
    return math.ceil(share) if round_up else math.floor(share)


def choose_new_scale(replicas: int, limits: Limits, new: Count, old: Sequence[Count]) -> int:
    """Return how many new pods may exist now: never fewer than there are, unless too many are requested."""
    if new.wanted >= replicas:
        return replicas
    room = replicas + limits.surge - sum(count.wanted for count in old) - new.wanted
    return min(replicas, new.wanted + max(0, room))


def choose_old_scales(replicas: int, limits: Limits, new: Count, old: Sequence[Count]) -> list[int]:
    """Return how many pods each old set keeps, oldest removed first; enough stay available."""
    enough = replicas - limits.unavailable
    spare = new.available + sum(count.available for count in old) - enough
    kept = []
    for count in old:
        idle = count.wanted - count.available  # pods that do not work are removed first
        going = min(count.wanted, idle + max(0, spare))
        spare -= max(0, going - idle)
        kept.append(count.wanted - going)
    return kept
