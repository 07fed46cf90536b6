"""The format of the data file: its version, the way from earlier ones, and the refusal of later ones."""

from __future__ import annotations

from collections.abc import Mapping

import apsw
from msgspec import Struct, field

from watchword.apiserver.store.errors import StoreOpenError

APPLICATION_ID = 0x57774B56  # marks the file as ours, so that no other database is taken for one


class StoreFormat(Struct, frozen=True):
    """A version of the data file, and the SQL that leads from each earlier version to the next."""

    version: int
    migrations: Mapping[int, str] = field(default_factory=dict)


CURRENT = StoreFormat(1)


def require_known_format(db: apsw.Connection, name: str, current: StoreFormat) -> int:
    """Return the version of a file that this release can read; `StoreOpenError` for any other file."""
    if db.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise StoreOpenError(f"{name} is a database of another program: choose another data directory")
    version = int(db.execute("PRAGMA user_version").get)
    if version > current.version:
        raise StoreOpenError(
            f"{name} has format {version}, and this release of watchword knows formats up to {current.version}: use "
            f"the release that wrote it, or `watchword restore` a backup that was made before the upgrade"
        )
    missing = [step for step in range(version, current.version) if step not in current.migrations]
    if missing:
        raise StoreOpenError(f"{name} has format {version}, which this release cannot migrate: use an earlier release")
    return version


def migrate(db: apsw.Connection, name: str, current: StoreFormat = CURRENT) -> int:
    """Bring a file to the current version in one transaction; return the version that it had."""
    found = require_known_format(db, name, current)
    if found == current.version:
        return found
    with db:  # the new version and what it means commit together
        for version in range(found, current.version):
            db.execute(current.migrations[version])
        db.execute(f"PRAGMA user_version = {current.version}")
    return found
