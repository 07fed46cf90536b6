"""What Kubernetes accepts as a name, duration or server address, and bounds for what other writers put into objects."""

import re
from datetime import timedelta
from decimal import Decimal
from urllib.parse import SplitResult, urlsplit

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
    form = "must consist of lower case letters, digits or '-', and begin and end with a letter or digit"
    return "" if is_dns_label(name) else _too_long(name, LONGEST_LABEL) or form


def validate_dns_subdomain(name: str) -> str:
    form = "must consist of lower case letters, digits, '-' or '.', and each part begin and end with a letter or digit"
    return "" if is_dns_subdomain(name) else _too_long(name, LONGEST_SUBDOMAIN) or form


def _too_long(name: str, longest: int) -> str:
    return f"must be no more than {longest} characters" if len(name) > longest else ""


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


LONGEST_SERVER_ADDRESS = 2048
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:.]{2,45}", re.ASCII)
_PATH = re.compile(r"(/[A-Za-z0-9_~\-][A-Za-z0-9._~\-]*)*/?", re.ASCII)  # no segment begins with a dot


def validate_server_address(url: str) -> str:
    """Return in one sentence why a URL is no API server address; empty when it is one."""
    parts = _split(url)
    if parts is None:
        return f"must be an https address with a host, of {LONGEST_SERVER_ADDRESS} characters at most"
    if parts.scheme != "https":
        return "must begin with https://"
    if parts.username is not None or parts.password is not None:
        return "must not carry a user or password"
    if parts.query or parts.fragment or "?" in url or "#" in url or not _PATH.fullmatch(parts.path):
        return "must be a plain address, without query or fragment"
    if not parts.hostname or not _HOST.fullmatch(parts.hostname) or ".." in parts.hostname:
        return "must name a host"
    return ""


def _split(url: str) -> SplitResult | None:
    if (
        len(url) > LONGEST_SERVER_ADDRESS
        or not url.isascii()
        or any(character <= " " or character == "\\" for character in url)
    ):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises when it is no port number
    except ValueError:
        return None
    return parts
