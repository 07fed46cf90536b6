"""Reads the labels of a stored object and skips the rest: several times faster than decoding it."""

from __future__ import annotations

import msgspec


class _LabelMetadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _LabelMetadata


_labelled = msgspec.json.Decoder(_Labelled)


def read_labels(body: bytes) -> dict[str, str]:
    """Return the labels of an encoded object."""
    return _labelled.decode(body).metadata.labels or {}
