"""What an administrator has decided about pull secrets, read from one ConfigMap and followed without a restart."""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object, ObjectKey
from watchword.api.pull_secrets import CONFIGURATION, REGISTRY_SERVICES
from watchword.api.resources import CONFIG_MAPS, SERVICES
from watchword.pullsecrets.pull_secret import Credentials, PullSecret
from watchword.runtime.metrics import TokenRefreshMetrics, TokenValidityMetrics
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.reconcile import Reader

WHERE = "in a pull secret"


class PullSecretMetrics(TokenRefreshMetrics):
    """The series of pull secrets, in the registry of the process."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], datetime]) -> None:
        super().__init__(registry, "pull_secret", WHERE)
        self._times = times = TokenValidityMetrics(registry, "pull_secret", WHERE, now=now).times
        secrets = registry.gauge("watchword_pull_secrets", "Managed pull secrets by state", "state")
        secrets.labels("empty").set_function(lambda: sum(each.expires is None for each in times.values()))
        secrets.labels("filled").set_function(lambda: sum(each.expires is not None for each in times.values()))
        self.first_token = registry.histogram(
            "watchword_pull_secret_first_token_seconds",
            "From the creation of a pull secret to its first token",
            buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
        ).labels()

    def observe(self, secret: PullSecret) -> None:
        token = secret.content.token if isinstance(secret.content, Credentials) else None
        validity = CredentialValidity(token.issued_at, token.expires_at) if token is not None else CredentialValidity()
        self._times[secret.uid] = validity

    def forget(self, uid: str) -> None:
        self._times.pop(uid, None)


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
    found = (name for service in services for name in service_registries(service, cluster_domain=cluster_domain))
    return tuple(sorted({*found, *configured}))


def _addresses(spec: Object) -> Iterator[str]:
    for text in spec.get("clusterIPs") or [spec.get("clusterIP") or ""]:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # a headless Service has no address
            continue
        yield f"[{address}]" if address.version == 6 else str(address)


SHORTEST_LIFETIME, LONGEST_LIFETIME = timedelta(minutes=10), timedelta(days=30)
KEYS = ("enabled", "registries", "cluster-domain", "audience", "token-lifetime-seconds")


class Settings(Struct, frozen=True):
    """What every pull secret of the cluster should hold."""

    enabled: bool = True
    registries: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()  # empty: the API server's own, which OpenShift's integrated registry needs
    lifetime: timedelta = timedelta(hours=1)


class SettingsReader(Struct):
    """Reads the settings from the cache; a ConfigMap with an error changes nothing until it is corrected."""

    reader: Reader
    config_map: ObjectKey = CONFIGURATION
    services: tuple[ObjectKey, ...] = REGISTRY_SERVICES
    _valid: Mapping[str, str] | None = None  # the last data of the ConfigMap without an error
    _read: list[Object] = field(default_factory=list)  # what the settings below were decided from
    _settings: Settings | None = None

    def current(self) -> Settings | None:
        """Return the settings; None when the ConfigMap never was readable, so nothing may be changed."""
        found = self.reader.get(CONFIG_MAPS, self.config_map) or {}
        services = [service for key in self.services if (service := self.reader.get(SERVICES, key)) is not None]
        # Each reconcile asks: it is decided anew only after a change.
        if self._settings is None or self._read != [found, *services]:
            self._read, self._settings = [found, *services], self._decide(found, services)
        return self._settings

    def _decide(self, config_map: Object, services: Sequence[Object]) -> Settings | None:
        data = config_map.get("data") or {}
        if validate_configuration(data):
            data = self._valid
        if data is None:
            return None
        self._valid = data
        domain = data.get("cluster-domain", "").strip(" .") or CLUSTER_DOMAIN
        return Settings(
            enabled=data.get("enabled", "true") == "true",
            registries=choose_registries(services, _words(data, "registries"), cluster_domain=domain),
            audiences=tuple(_words(data, "audience")),
            lifetime=timedelta(seconds=int(data.get("token-lifetime-seconds", "3600"))),
        )


def validate_configuration(data: Mapping[str, str]) -> str:
    """Say what is wrong with the data of the ConfigMap and how to correct it; empty when nothing is."""
    unknown = sorted(set(data) - set(KEYS))
    if unknown:
        return f"unknown key {unknown[0]!r}: the keys are {', '.join(KEYS)}"
    if data.get("enabled", "true") not in ("true", "false"):
        return f"enabled is {data['enabled']!r}: write true or false"
    wrong = [name for name in _words(data, "registries") if not REGISTRY.fullmatch(name)]
    if wrong:
        return f"{wrong[0]!r} is not a registry: write host, host:port or host:port/path, without https://"
    seconds = data.get("token-lifetime-seconds", "3600")
    shortest, longest = int(SHORTEST_LIFETIME.total_seconds()), int(LONGEST_LIFETIME.total_seconds())
    if not re.fullmatch("[0-9]{1,9}", seconds) or not shortest <= int(seconds) <= longest:
        return f"token-lifetime-seconds is {seconds!r}: write a number from {shortest} to {longest}"
    return ""


def _words(data: Mapping[str, str], name: str) -> list[str]:
    return data.get(name, "").replace(",", " ").split()
