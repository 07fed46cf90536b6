"""What the writing verbs share."""

from __future__ import annotations

from msgspec import Struct

from watchword.apiserver.model import Now
from watchword.apiserver.registry.kind_table import KindTable
from watchword.apiserver.registry.managed_fields import ManagedFieldsTracker
from watchword.apiserver.registry.object_storage import ObjectStorage
from watchword.apiserver.registry.pipeline import Pipeline
from watchword.apiserver.registry.system_fields import Entropy
from watchword.apiserver.watching.watch import BOOKMARK_EVERY


class VerbDependencies(Struct, frozen=True):
    """Store, kinds, pipeline, clock and randomness of one control plane."""

    objects: ObjectStorage
    kinds: KindTable
    pipeline: Pipeline
    ownership: ManagedFieldsTracker
    now: Now
    entropy: Entropy
    bookmark_every: float = BOOKMARK_EVERY  # seconds
