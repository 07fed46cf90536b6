"""What Kubernetes accepts as a name or a duration, and bounds for what other writers put into objects."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from watchword.api.limits import LONGEST_LABEL, LONGEST_SUBDOMAIN

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DURATION = re.compile(r"([-+]?)((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST_DURATION = 100
_MICROSECONDS = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ms": Decimal(1000),
    "s": Decimal(1_000_000),
    "m": Decimal(60_000_000),
    "h": Decimal(3_600_000_000),
}
_GO_LIMIT_MICROSECONDS = (1 << 63) // 1000  # Go counts nanoseconds in 64 bits


LONGEST_SPAN = timedelta(days=73000)
"""Longer spans are read as this one: an instant within `api.time`'s bounds plus some of them cannot overflow."""


class DurationError(ValueError):
    """The text is not a duration as Go writes it."""


def is_dns_label(name: str) -> bool:
    """Whether a name can be that of a namespace: RFC 1123 label."""
    return len(name) <= LONGEST_LABEL and _LABEL.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether a name can be that of most objects: RFC 1123 subdomain."""
    return len(name) <= LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def validate_dns_label(name: str) -> str:
    """Return why a name is not a DNS label, in one sentence; empty when it is one."""
    if is_dns_label(name):
        return ""
    if len(name) > LONGEST_LABEL:
        return f"must be no more than {LONGEST_LABEL} characters"
    return "must consist of lower case letters, digits or '-', and begin and end with a letter or digit"


def validate_dns_subdomain(name: str) -> str:
    """Return why a name is not a DNS subdomain, in one sentence; empty when it is one."""
    if is_dns_subdomain(name):
        return ""
    if len(name) > LONGEST_SUBDOMAIN:
        return f"must be no more than {LONGEST_SUBDOMAIN} characters"
    return "must consist of lower case letters, digits, '-' or '.', and each part begin and end with a letter or digit"


def parse_duration(text: str) -> timedelta:
    """Read `1h30m`, `500ms`, `0`; finer than a microsecond is cut off."""
    if text in {"0", "+0", "-0"}:
        return timedelta(0)
    found = _DURATION.fullmatch(text) if len(text) <= _LONGEST_DURATION else None
    if found is None:
        raise DurationError(f"{text[:40]!r} is not a duration: write it like 24h, 90m or 1h30m")
    total = sum((Decimal(number) * _MICROSECONDS[unit] for number, unit in _PART.findall(text)), Decimal(0))
    if total >= _GO_LIMIT_MICROSECONDS:
        raise DurationError(f"{text!r} is longer than a duration can be (about 292 years)")
    return timedelta(microseconds=int(-total if found.group(1) == "-" else total))


def parse_seconds(
    value: object, *, shortest: timedelta = timedelta(0), longest: timedelta = LONGEST_SPAN
) -> timedelta | None:
    """Read a number of seconds, also one in digits, clamped to the bounds; None when it is not one, or negative."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value.lstrip("0")[:20] or "0")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return timedelta(seconds=max(shortest.total_seconds(), min(value, longest.total_seconds())))


def format_duration(duration: timedelta) -> str:
    """Write a duration as Go prints it: `24h0m0s`, `1m30s`, `1.5s`, `10ms`, `0s`."""
    total = duration // timedelta(microseconds=1)
    sign, total = ("-", -total) if total < 0 else ("", total)
    if total == 0:
        return "0s"
    if total < 1000:
        return f"{sign}{total}µs"
    if total < 1_000_000:
        return f"{sign}{_plain(Decimal(total) / 1000)}ms"
    minutes, micro = divmod(total, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_plain(Decimal(micro) / 1_000_000)}s"


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
