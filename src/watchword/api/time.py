"""Instants as Kubernetes writes them (RFC 3339, UTC, `Z`), and as HTTP does."""

import re
from datetime import UTC, datetime

# Stricter than datetime.fromisoformat: the zone is mandatory, `T` and `Z` are upper case.
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)

# The one form that RFC 9110 allows to write; the standard library reads it by its parser of e-mail.
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_EARLIEST, _LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_ZONE = len("+00:00")


def rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="seconds")[:-_ZONE] + "Z"


def rfc3339_micro(instant: datetime) -> str:
    """Write an instant with microseconds, as Lease and events.k8s.io want it."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[:-_ZONE] + "Z"


def bounded(instant: datetime) -> datetime:
    """Return an instant of another writer, from the years 1000 to 9000: adding a span cannot overflow."""
    return max(_EARLIEST, min(instant, _LATEST))


def parse_rfc3339(text: str) -> datetime | None:
    """Read an instant of another writer, `bounded`; None when the text is not RFC 3339 with a zone."""
    instant = parse_any_rfc3339(text)
    return None if instant is None else bounded(instant)


def parse_any_rfc3339(text: str) -> datetime | None:
    """Read an instant without bounds: for values that are compared or stored, and not computed with."""
    if not _RFC3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_http_date(text: str) -> datetime | None:
    """Read the date of an HTTP header, `bounded`; None when it has another form."""
    found = _HTTP_DATE.fullmatch(text)
    if found is None or found[2] not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[place]) for place in (1, 3, 4, 5, 6))
    try:
        return bounded(datetime(year, _MONTHS.index(found[2]) + 1, day, hour, minute, second, tzinfo=UTC))
    except ValueError:
        return None
