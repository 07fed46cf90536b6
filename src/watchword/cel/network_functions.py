"""Addresses, networks and URLs in rules, read as Go reads them."""

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from msgspec import Struct

from watchword.cel.functions import CelError, Function, no_overload

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
T = TypeVar("T")


class Cidr(Struct, frozen=True):
    """An address and the length of its network's prefix."""

    address: IpAddress
    length: int

    def contains(self, address: IpAddress) -> bool:
        return address in ipaddress.ip_network((self.address, self.length), strict=False)


class Url(Struct, frozen=True):
    """A URL in parts."""

    scheme: str
    host: str  # with the port, as written
    path: str
    query: str


def parse_ip(text: str) -> IpAddress:
    """Read an address; zones and IPv4 within IPv6 are refused, as in Kubernetes."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise CelError(f"IP Address {text[:64]!r} parse error during conversion from string") from error
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise CelError(f"IP Address {text[:64]!r} parse error: zones and IPv4-mapped addresses are not allowed")
    return address


def parse_cidr(text: str) -> Cidr:
    """Read a network; the address may have bits beyond the prefix."""
    address, slash, length = text.partition("/")
    found = parse_ip(address)
    if not slash or not re.fullmatch(r"0|[1-9]\d{0,2}", length, re.ASCII) or int(length) > found.max_prefixlen:
        raise CelError(f"network address parse error during conversion from string: {text[:64]!r}")
    return Cidr(found, int(length))


def parse_url(text: str) -> Url:
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)
    is_wrong = (
        re.search(r"[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})", text)
        or (scheme is None and not text.startswith("/"))
        or (scheme is not None and scheme.end() == len(text))
    )
    try:
        parts = urlsplit(text) if scheme is not None else urlsplit(f"none://{text}")
        host = parts.netloc.rpartition("@")[2]
        is_wrong = is_wrong or not _HOST.fullmatch(host)
    except ValueError:
        is_wrong = True
    if is_wrong:
        raise CelError(f"URL parse error during conversion from string: {text[:64]!r}")
    return Url(parts.scheme if scheme is not None else "", host, parts.path, parts.query)


_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:<>\[\]\"\\^`{|}]*)(?::\d*)?", re.ASCII)


def _reader(kind: type[T] | tuple[type[Any], ...], parse: Callable[[str], T]) -> Callable[[Any], T]:
    """Return how a value of a kind is taken from an argument: as it is, or from its text."""

    def read(value: Any) -> T:
        if isinstance(value, kind):
            return value
        return parse(value) if type(value) is str else no_overload()

    return read


def _is_readable(parse: Callable[[str], Any]) -> Function:
    def check(text: Any) -> bool:
        if type(text) is not str:
            no_overload()
        try:
            parse(text)
        except CelError:
            return False
        return True

    return check


def _of(kind: type[Any] | tuple[type[Any], ...], compute: Function) -> Function:
    """Guard a method: its target must be of the kind."""

    def checked(target: Any, *arguments: Any) -> Any:
        return compute(target, *arguments) if isinstance(target, kind) else no_overload()

    return checked


def _is_global(address: IpAddress) -> bool:
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == _BROADCAST
    )


def _contains_cidr(outer: Cidr, given: Any) -> bool:
    inner = _cidr(given)
    same_family = outer.address.version == inner.address.version
    return same_family and outer.length <= inner.length and outer.contains(inner.address)


def _hostname(url: Url) -> str:
    return re.sub(r":\d*\Z", "", url.host).strip("[]")


def _port(url: Url) -> str:
    found = re.search(r":(\d*)\Z", url.host)
    return found[1] if found else ""


def _masked(found: Cidr) -> Cidr:
    return Cidr(ipaddress.ip_network((found.address, found.length), strict=False).network_address, found.length)


_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_IPS = (ipaddress.IPv4Address, ipaddress.IPv6Address)
_ip: Callable[[Any], IpAddress] = _reader(_IPS, parse_ip)
_cidr = _reader(Cidr, parse_cidr)
_url = _reader(Url, parse_url)

FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("ip", 1): _ip,
    ("isIP", 1): _is_readable(parse_ip),
    ("ip.isCanonical", 1): lambda text: str(_ip(text)) == text,
    ("cidr", 1): _cidr,
    ("isCIDR", 1): _is_readable(parse_cidr),
    ("url", 1): _url,
    ("isURL", 1): _is_readable(parse_url),
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    ("family", 1): _of(_IPS, lambda found: found.version),
    ("isUnspecified", 1): _of(_IPS, lambda found: found.is_unspecified),
    ("isLoopback", 1): _of(_IPS, lambda found: found.is_loopback),
    ("isLinkLocalMulticast", 1): _of(_IPS, lambda found: str(found).startswith(("224.0.0.", "ff02:"))),
    ("isLinkLocalUnicast", 1): _of(_IPS, lambda found: found.is_link_local),
    ("isGlobalUnicast", 1): _of(_IPS, _is_global),
    ("ip", 1): _of(Cidr, lambda found: found.address),
    ("prefixLength", 1): _of(Cidr, lambda found: found.length),
    ("masked", 1): _of(Cidr, _masked),
    ("containsIP", 2): _of(Cidr, lambda found, address: found.contains(_ip(address))),
    ("containsCIDR", 2): _of(Cidr, _contains_cidr),
    ("getScheme", 1): _of(Url, lambda found: found.scheme),
    ("getHost", 1): _of(Url, lambda found: found.host),
    ("getHostname", 1): _of(Url, _hostname),
    ("getPort", 1): _of(Url, _port),
    ("getEscapedPath", 1): _of(Url, lambda found: quote(found.path, safe="/%:@!$&'()*+,;=~-._")),
    ("getQuery", 1): _of(Url, lambda found: parse_qs(found.query, keep_blank_values=True)),
}
