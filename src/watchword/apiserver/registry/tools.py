"""What the writing verbs share."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.apiserver.model import Now
from watchword.apiserver.registry.kind_table import KindTable
from watchword.apiserver.registry.objects import Objects
from watchword.apiserver.registry.ownership import Ownership
from watchword.apiserver.registry.pipeline import Pipeline
from watchword.apiserver.registry.system_fields import Entropy
from watchword.apiserver.watching.watch import BOOKMARK_EVERY


@dataclass(frozen=True, slots=True)
class Tools:
    """Store, kinds, pipeline, clock and randomness of one control plane."""

    objects: Objects
    kinds: KindTable
    pipeline: Pipeline
    ownership: Ownership
    now: Now
    entropy: Entropy
    bookmark_every: float = BOOKMARK_EVERY  # seconds
