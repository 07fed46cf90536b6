"""Which registries a pull secret is for: the addresses of registry Services, and those that are configured."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator

from watchword.api.meta import Object, ObjectKey

CLUSTER_DOMAIN = "cluster.local"
DEFAULT_PORTS = (80, 443)  # clients leave these out, so the credential is found under both spellings
REGISTRY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?(?:/[a-z0-9._/-]{1,255})?",
    re.ASCII | re.IGNORECASE,
)


def service_registries(service: Object, *, cluster_domain: str = CLUSTER_DOMAIN) -> Iterator[str]:
    """Yield every address under which a pod reaches a registry Service; none while it has no port."""
    key, spec = ObjectKey.of(service), service.get("spec") or {}
    ports = spec.get("ports") or ()
    if not ports:
        return
    port = int(ports[0]["port"])
    name = f"{key.name}.{key.namespace}.svc"
    for host in (name, f"{name}.{cluster_domain}", *_addresses(spec)):
        yield f"{host}:{port}"
        if port in DEFAULT_PORTS:
            yield host


def choose_registries(services: Iterable[Object], configured: Iterable[str], *, cluster_domain: str) -> tuple[str, ...]:
    """Return every registry once, in order."""
    found = (name for service in services for name in service_registries(service, cluster_domain=cluster_domain))
    return tuple(sorted({*found, *configured}))


def validate_registry(text: str) -> str:
    """Say why a configured registry cannot be used; empty when it can."""
    if REGISTRY.fullmatch(text):
        return ""
    return f"{text!r} is not a registry: write host, host:port or host:port/path, without https://"


def _addresses(spec: Object) -> Iterator[str]:
    for text in spec.get("clusterIPs") or [spec.get("clusterIP") or ""]:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # a headless Service has no address
            continue
        yield f"[{address}]" if address.version == 6 else str(address)
