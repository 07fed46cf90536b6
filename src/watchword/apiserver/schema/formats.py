"""String formats that a schema may name; a name that is not here is not enforced."""

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from watchword.api.time import parse_any_rfc3339


def is_formatted(text: str, name: str) -> bool:
    """Whether the text has the named format; true for formats that are not enforced."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(text)


def is_known_format(name: str) -> bool:
    return name.replace("-", "") in _CHECKS


def _matches(pattern: str, longest: int = 1024) -> Callable[[str], bool]:
    """Return a check in linear time: the text is a client's."""

    def check(text: str) -> bool:
        from watchword.cel.re2_patterns import compile_pattern

        return len(text) <= longest and bool(compile_pattern(f"^(?:{pattern})$").search(text))

    return check


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    return parse_any_rfc3339(text.upper()) is not None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return bool(text)


def _is_ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return "/" in text


def _is_uri(text: str) -> bool:
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path))


_HOST_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_HOSTNAME = rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*"
_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DURATION = r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)"
_DURATION_IN_WORDS = r"(?:\d+\s*(?:ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)\w*\s*)+"

_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _is_base64,
    "cidr": _is_cidr,
    "date": _is_date,
    "datetime": _is_datetime,
    "duration": _matches(f"{_DURATION}|{_DURATION_IN_WORDS}"),
    "email": _matches(r"(?:[^<>]*<)?[^\s@<>]+@[^\s@<>]+>?"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": lambda text: len(text) <= 255 and re.fullmatch(_HOSTNAME, text) is not None,  # of any alphabet
    "ipv4": _is_ip(4),
    "ipv6": _is_ip(6),
    "k8sshortname": _matches(_NAME, 63),
    "k8slongname": _matches(rf"{_NAME}(?:\.{_NAME})*", 253),
    "mac": _matches(r"(?:[0-9a-fA-F]{2}[:-]){5}(?:[0-9a-fA-F]{2}[:-]?){1,3}|(?:[0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4}"),
    "password": lambda _: True,
    "uri": _is_uri,
    "uuid": _matches(r"(?i:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})"),
    "uuid3": _matches(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12})"),
    "uuid4": _matches(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12})"),
    "uuid5": _matches(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12})"),
}
