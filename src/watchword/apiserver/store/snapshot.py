"""A data file in one piece: copied from an open database, and read without opening it for writing."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from watchword.api.hidden_fields import HiddenFields
from watchword.apiserver.store.errors import StoreCorrupt, StoreOpenError
from watchword.apiserver.store.format import CURRENT, require_known_format

_JOURNAL_MODE = slice(18, 20)  # two bytes of the header; 1 says that there is no write-ahead log beside the file
_CURRENT_OBJECTS = """
SELECT bucket, path, revision FROM (SELECT bucket, path, max(revision) AS revision, deleted FROM log GROUP BY 1, 2)
WHERE NOT deleted
"""
_REVISION = """
SELECT max((SELECT coalesce(max(revision), 0) FROM log),
           (SELECT coalesce(max(value), 0) FROM facts WHERE name = 'revision'))
"""


class SnapshotSummary(HiddenFields, frozen=True):
    """What a data file holds."""

    hidden = ("objects",)

    version: int
    revision: int
    objects: Mapping[str, int]  # `plural.group/namespace/name` → its revision


def copy_database(db: apsw.Connection) -> bytes:
    """Return a data file with everything that is committed; it needs no write-ahead log beside it."""
    copy = apsw.Connection(":memory:")
    try:
        with copy.backup("main", db, "main") as backup:
            backup.step(-1)
        copy.execute("INSERT OR REPLACE INTO facts VALUES ('open', 0)")
        data = bytearray(copy.serialize("main"))
    finally:
        copy.close()
    data[_JOURNAL_MODE] = b"\x01\x01"
    return bytes(data)


def read_snapshot(data: bytes, name: str) -> SnapshotSummary:
    """Return what a copied data file holds; `StoreOpenError` when it is none, damaged, or newer than this release."""
    db = apsw.Connection(":memory:")
    try:
        db.deserialize("main", data)
        require_known_format(db, name, CURRENT)
        if db.execute("PRAGMA quick_check(1)").get != "ok":
            raise StoreCorrupt(f"{name} is damaged: use another backup")
        objects = {f"{bucket}/{path}": revision for bucket, path, revision in db.execute(_CURRENT_OBJECTS)}
        return SnapshotSummary(int(db.execute("PRAGMA user_version").get), int(db.execute(_REVISION).get), objects)
    except apsw.Error as cause:
        raise StoreOpenError(f"{name} is not a data file of watchword: {cause}") from cause
    finally:
        db.close()
