"""Slows down where another program rewrites a ServiceAccount again and again."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.meta import Object

MAXIMUM_KNOWN = 4096


class RewriteLimit(Struct):
    """Counts the writes to each account; more than `writes` within `within` have to wait."""

    writes: int = 5
    within: timedelta = timedelta(minutes=1)
    _times: dict[str, list[datetime]] = field(default_factory=dict)

    def wait(self, uid: str, *, now: datetime) -> timedelta:
        """Return how long the next write has to wait, nothing when it need not."""
        recent = self._times[uid] = [at for at in self._times.get(uid, ()) if now - at < self.within]
        if not recent:
            del self._times[uid]
        return timedelta(0) if len(recent) < self.writes else recent[0] + self.within - now

    def observe_write(self, uid: str, *, now: datetime) -> None:
        """Note a write."""
        if len(self._times) >= MAXIMUM_KNOWN:
            self._times = {known: at for known, at in self._times.items() if now - at[-1] < self.within}
        self._times.setdefault(uid, []).append(now)


def other_managers(account: Object, *, own: str) -> list[str]:
    """Return who else writes the pull secrets or the annotations of an account, by name."""
    rows = account["metadata"].get("managedFields") or ()
    found = {str(row.get("manager")) for row in rows if _is_contested(row.get("fieldsV1") or {})}
    return sorted(found - {own})


def _is_contested(fields: Object) -> bool:
    return "f:imagePullSecrets" in fields or "f:annotations" in (fields.get("f:metadata") or {})
