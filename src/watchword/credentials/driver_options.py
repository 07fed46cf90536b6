"""What can be configured about a driver: flags of commands, and fields of Klusterlet and ClusterManager."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeAlias

from msgspec import Struct

from watchword.api.meta import Object

Settings: TypeAlias = Mapping[str, str]
"""What is configured about drivers, by flag; the parts of a list are separated by commas."""

AUTO_APPROVAL = "ManagedClusterAutoApproval"
"""The feature gate without which no request is approved, and no cluster accepted, without a person."""

DRIVER_LIST = "registrationDrivers"
"""The list in a ClusterManager with one entry for each driver; at the start of a path it means the driver's entry."""


class Side(Enum):
    """Where an option belongs."""

    CLUSTER = auto()  # flags of `join` and `agent`, fields of the Klusterlet
    JOIN = auto()  # flags of `join` alone: they are stored in the bootstrap Secret
    HUB = auto()  # flags of `init` and `hub`, fields of the ClusterManager


class OptionType(Enum):
    """How an option's value is written in a spec."""

    TEXT = auto()
    NUMBER = auto()
    LIST = auto()


def _nothing(_text: str) -> str:
    return ""


class DriverOption(Struct, frozen=True, kw_only=True):
    """One option: a flag, and the corresponding fields under `spec.registrationConfiguration`."""

    flag: str
    help: str
    side: Side
    paths: tuple[tuple[str, ...], ...] = ()  # all are read, the first is written; empty: it has a flag only
    aliases: tuple[str, ...] = ()
    type: OptionType = OptionType.TEXT
    required: bool = False  # where its driver is chosen
    exposure: str = ""  # the protocol whose hosts in `serverConfiguration.endpointsExposure` are its value
    gate: str = ""  # the feature gate without which it has no effect
    from_context: Callable[[str], str] = _nothing  # what a kubeconfig's context says, for `init`; empty: nothing
    validate: Callable[[str], str] = _nothing  # why a value is refused; empty when it is not
    warn: Callable[[str], str] = _nothing  # why a value is unwise; empty when it is not

    def read(self, settings: Settings) -> str:
        """Return the configured value, empty when there is none: a number that is 0 means the default."""
        value = settings.get(self.flag, "")
        return "" if self.type is OptionType.NUMBER and value == "0" else value

    def read_list(self, settings: Settings) -> tuple[str, ...]:
        return tuple(part for part in self.read(settings).split(",") if part)

    def to_field(self, value: str) -> Any:
        if self.type is OptionType.LIST:
            return [part for part in value.split(",") if part]
        return int(value) if self.type is OptionType.NUMBER else value


def validate_options(options: Iterable[DriverOption], settings: Settings) -> list[str]:
    objections = [option.validate(value) for option in options if (value := option.read(settings))]
    return [objection for objection in objections if objection]


def settings_from_spec(
    options: Iterable[DriverOption], registration: Mapping[str, Any], entry: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return what `spec.registrationConfiguration` configures; `entry` is the driver's own in a ClusterManager."""
    found: dict[str, str] = {}
    for option in options:
        values = [str(part) for path in option.paths for part in _parts(_descend(registration, entry or {}, path))]
        if values:
            found[option.flag] = ",".join(dict.fromkeys(values)) if option.type is OptionType.LIST else values[0]
    return found


def settings_to_spec(options: Iterable[DriverOption], settings: Settings) -> Object:
    """Return the fields under `spec.registrationConfiguration` that configure the same.

    A number that is 0 is written, too: it replaces the one that a spec has.
    """
    spec: Object = {}
    for option in options:
        value = settings.get(option.flag, "")
        if value and option.paths:
            *parents, last = option.paths[0]
            place = spec
            for name in parents:
                place = place.setdefault(name, {})
            place[last] = option.to_field(value)
    return spec


def empty_other_paths(options: Iterable[DriverOption], settings: Settings, registration: Object) -> Object:
    """Return `spec.registrationConfiguration` with an empty value in the other fields of the settings that are named.

    Only the first path of an option is written, and a value that stayed in another one would be read, too. A field
    that is left out stays when another manager applied it, so it is emptied.
    """
    paths = [path for option in options if option.flag in settings for path in option.paths[1:]]
    cleared = {**registration}
    for path in paths:
        cleared = _emptied(cleared, path)
    return cleared


def settings_to_flags(options: Iterable[DriverOption], settings: Settings) -> list[str]:
    """Return the settings as a command line; a list becomes one flag for each part."""
    rows = [
        (option, option.read_list(settings) if option.type is OptionType.LIST else (option.read(settings),))
        for option in options
    ]
    return [f"{option.flag}={value}" for option, values in rows for value in values if value]


def _descend(registration: Mapping[str, Any], entry: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = entry if path[0] == DRIVER_LIST else registration
    for name in path[1:] if path[0] == DRIVER_LIST else path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _emptied(spec: Any, path: Sequence[str]) -> Any:
    if isinstance(spec, list):
        return [_emptied(each, path) for each in spec]
    if not isinstance(spec, Mapping) or path[0] not in spec:
        return spec
    first, *rest = path
    present = spec[first]
    return {**spec, first: _emptied(present, rest) if rest else type(present)()}


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []
