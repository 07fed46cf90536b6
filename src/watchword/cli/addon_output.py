"""Formats add-ons for people."""

from __future__ import annotations

from watchword.api.addon import CUSTOM_SIGNER, Addon, Registration
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object
from watchword.api.names import ConditionType
from watchword.drivers.catalog import CATALOG

COLUMNS = ("NAME", "CLUSTER", "AVAILABLE", "DRIVER", "CREDENTIAL")


def addon_row(obj: Object) -> tuple[str, ...]:
    """Return one line about an add-on."""
    addon = Addon.read(obj)
    available = find_condition(obj, ConditionType.ADDON_AVAILABLE)
    said = CATALOG.addon_credential(addon)
    credential = "" if said is None else ("good" if said.status == "True" else said.reason)
    state = "Deleting" if addon.deleting else available.status if available is not None else "Unknown"
    return addon.name, addon.cluster, state, addon.driver or "-", credential or "-"


def describe_addon(obj: Object) -> str:
    """Return everything about one add-on, in lines."""
    addon = Addon.read(obj)
    lines = [
        f"Name:       {addon.name}",
        f"Cluster:    {addon.cluster}",
        f"Namespace:  {addon.namespace_on_cluster()} (on the cluster)",
        *(f"Credential: {_registration(addon, row)}" for row in addon.registrations),
    ]
    for row in conditions_of(obj):
        lines.append(f"{row.get('type')}: {row.get('status')} ({row.get('reason')})")
        if row.get("message"):
            lines.append(f"    {row['message']}")
    return "\n".join(lines) + "\n"


def _registration(addon: Addon, row: Registration) -> str:
    by_driver = f"for the hub, by {row.driver or '(not declared)'}"
    how = f"from signer {row.signer}" if row.type == CUSTOM_SIGNER else by_driver
    who = row.subject.user or "(not declared)"
    return f"{row.secret_name(addon.name)}, {how}, as {who}"
