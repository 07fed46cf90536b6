"""Instants as Kubernetes writes them: RFC 3339, UTC, `Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# Stricter than datetime.fromisoformat: the zone is mandatory, `T` and `Z` are upper case.
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)


def rfc3339(instant: datetime) -> str:
    """Write an instant with second precision."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(instant: datetime) -> str:
    """Write an instant with microseconds, as Lease and events.k8s.io want it."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime | None:
    """Read an instant; None when the text is not RFC 3339 with a zone."""
    if not _RFC3339.fullmatch(text):
        return None
    head, fraction, zone = re.fullmatch(r"([^.,Z+]*?\d)(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})", text, re.ASCII).groups()  # type: ignore[union-attr]
    micro = ((fraction or "") + "000000")[:6]
    try:
        return datetime.fromisoformat(f"{head}.{micro}{'+00:00' if zone == 'Z' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
