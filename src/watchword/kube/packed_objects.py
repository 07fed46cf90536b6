"""Keeps many objects of one kind in little memory: each is compressed against a sample of them."""

import zlib
from collections.abc import Iterator
from itertools import islice

from watchword.api.meta import ObjectKey

WINDOW_BITS = 13
SAMPLE_BYTES = 1 << WINDOW_BITS  # more than that, the compression does not look back
SAMPLED_OBJECTS = 4
FIRST_SAMPLE, NEXT_SAMPLE = 256, 64  # sampled at so many objects, and again when there are 64 times as many
SHORTEST = 1024  # bytes; to compress shorter objects, as Leases and RoleBindings, takes more time than it saves memory


class PackedObjects:
    """Raw objects by key; what is returned equals what was put.

    Objects of one kind differ in little more than names, UIDs and times. Deflate finds the rest in its dictionary, a
    sample of these objects, so that a tenth of their size is stored. Collections of a few objects are not compressed.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, bytes]] = {}
        self._count = 0
        self._compression = _Compression(b"")
        self._sample_at = FIRST_SAMPLE

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return (raw for _, raw in self.items())

    def get(self, key: ObjectKey) -> bytes | None:
        packed = self._namespaces.get(key.namespace, {}).get(key.name)
        return None if packed is None else self._compression.unpack(packed)

    def put(self, key: ObjectKey, raw: bytes) -> None:
        names = self._namespaces.setdefault(key.namespace, {})
        self._count += key.name not in names
        names[key.name] = self._compression.pack(raw)
        if self._count >= self._sample_at:
            self._sample()

    def remove(self, key: ObjectKey) -> None:
        names = self._namespaces.get(key.namespace, {})
        if names.pop(key.name, None) is not None:
            self._count -= 1
        if not names:
            self._namespaces.pop(key.namespace, None)

    def object_keys(self) -> list[ObjectKey]:
        return [ObjectKey(namespace, name) for namespace, names in self._namespaces.items() for name in names]

    def items(self, *, namespace: str = "") -> Iterator[tuple[ObjectKey, bytes]]:
        """Yield every object, or those of one namespace, whose number alone decides what that costs."""
        parts = {namespace: self._namespaces.get(namespace, {})} if namespace else self._namespaces
        for place, names in parts.items():
            for name, packed in names.items():
                yield ObjectKey(place, name), self._compression.unpack(packed)

    def _sample(self) -> None:
        """Compress every object anew, against objects from all over the collection."""
        self._sample_at = self._count * NEXT_SAMPLE
        samples = islice(self, 0, None, max(1, self._count // SAMPLED_OBJECTS))
        compression = _Compression(b"".join(samples)[-SAMPLE_BYTES:])
        for names in self._namespaces.values():
            for name, packed in names.items():
                names[name] = compression.pack(self._compression.unpack(packed))
        self._compression = compression


class _Compression:
    """Deflate with a preset dictionary; what begins with a brace is not compressed."""

    def __init__(self, sample: bytes) -> None:
        self._has_sample = bool(sample)
        memory_level = 4  # the least that finds as much as higher levels do in so small a window
        # Made once and copied for each object: to read the dictionary takes as long as to compress an object.
        # The fixed Huffman code makes objects a tenth larger and halves the time to unpack them.
        self._packing = zlib.compressobj(
            zlib.Z_BEST_SPEED, zlib.DEFLATED, -WINDOW_BITS, memory_level, zlib.Z_FIXED, sample
        )
        self._unpacking = zlib.decompressobj(-WINDOW_BITS, sample)

    def pack(self, raw: bytes) -> bytes:
        raw = raw.lstrip()
        if not self._has_sample or len(raw) < SHORTEST:
            return raw
        packing = self._packing.copy()
        packed = packing.compress(raw) + packing.flush()
        return raw if packed.startswith(b"{") or len(packed) >= len(raw) else packed

    def unpack(self, packed: bytes) -> bytes:
        return packed if packed.startswith(b"{") else self._unpacking.copy().decompress(packed)
