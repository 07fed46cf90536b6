"""The flags of drivers, made from what the catalog says can be configured."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from watchword.addons.catalog import ADDON_CATALOG
from watchword.cli.options import AliasedOption, F, split, with_options
from watchword.credentials.driver import DriverOption, OptionType, Settings, Side
from watchword.registration.catalog import CATALOG


def driver_options(side: Side, *, stored: bool = False) -> Callable[[F], F]:
    """Add a flag for each option of one side; `stored` leaves out those that no spec has a field for."""
    return with_options(*(_flag(option) for option in _options(side, stored=stored)))


def driver_choice_options(*, default: str = "") -> Callable[[F], F]:
    """Add the flags that choose the drivers of a cluster and its add-ons; without a default, none is named."""
    at_first = "" if default else f"; {CATALOG.default} on a new cluster"
    clusters, addons = (", ".join(known) for known in (CATALOG.by_name, ADDON_CATALOG.by_name))
    choice = partial(click.option, default=default, show_default=bool(default))
    return with_options(
        choice("--registration-auth", help=f"Registration driver of the cluster: {clusters}{at_first}."),
        choice("--addon-kubeclient-registration-auth", "addon_auth", help=f"Registration driver of add-ons: {addons}."),
    )


def driver_settings(flags: Mapping[str, Any], side: Side) -> Settings:
    values = {option.flag: _text(flags.get(_parameter(option))) for option in _options(side)}
    return {flag: text for flag, text in values.items() if text}


def with_kubeconfig_settings(settings: Settings, side: Side, driver: str, cluster: str) -> Settings:
    missing = [option for option in CATALOG.options(side, driver) if driver and not option.read(settings)]
    found = {option.flag: option.from_context(cluster) for option in missing}
    return {**{flag: value for flag, value in found.items() if value}, **settings}


def _options(side: Side, *, stored: bool = False) -> list[DriverOption]:
    options = (*CATALOG.options(side), *(ADDON_CATALOG.options if side is Side.CLUSTER else ()))
    return [option for option in options if option.paths or option.exposure or not stored]


def _flag(option: DriverOption) -> Callable[[Any], Any]:
    kinds: dict[OptionType, dict[str, Any]] = {
        OptionType.TEXT: {"default": ""},
        OptionType.NUMBER: {"type": click.IntRange(0)},
        OptionType.LIST: {"multiple": True},
    }
    names = (option.flag, *option.aliases, _parameter(option))
    return click.option(*names, cls=AliasedOption, help=option.help, **kinds[option.type])


def _parameter(option: DriverOption) -> str:
    return option.flag.removeprefix("--").replace("-", "_")


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(split(value))
    return "" if value is None else str(value)
