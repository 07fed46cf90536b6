"""`watchword addon`: the add-ons of a hub's clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import click

from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.addons import AccountsAddonAdmin, AddonAdmin, is_reinstalled_by_strategy
from watchword.admin.errors import OperationRefused
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import CUSTOM_SIGNER, Addon, Registration
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.cli.clusters import without_managed_fields
from watchword.cli.common_options import (
    cluster_names,
    format_document,
    output_option,
    split,
    wait_options,
)
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import parse_duration_flag, print_progress
from watchword.cli.options import flag, option, text, with_options
from watchword.cli.output import echo, render_table, terminal_width
from watchword.health.hub_reader import require_hub
from watchword.health.inventory import decide_each
from watchword.runtime.event_loop import run

COLUMNS = ("NAME", "CLUSTER", "AVAILABLE", "DRIVER", "CREDENTIAL")


def addon_row(obj: Object) -> tuple[str, ...]:
    addon = Addon.read(obj)
    available = find_condition(obj, ConditionType.ADDON_AVAILABLE)
    said = ADDON_CATALOG.find_credential(addon)
    granted = find_condition(obj, ConditionType.REGISTRATION_APPLIED)
    credential = "" if said is None else ("good" if said.status == "True" else said.reason)
    if granted is not None and granted.status == "False":
        credential = f"no rights: {granted.reason}"
    state = "Deleting" if addon.deleting else available.status if available is not None else "Unknown"
    return addon.name, addon.cluster, state, addon.driver or "-", credential or "-"


def _unreadable_row(obj: Object, cause: str) -> tuple[str, ...]:
    key = ObjectKey.of(obj)
    return key.name, key.namespace, "Unknown", "-", cause


def describe_addon(obj: Object) -> str:
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


F = TypeVar("F", bound=Callable[..., Any])


@click.group("addon")
def command() -> None:
    """Enable, disable and show the add-ons of clusters."""


@command.command("list")
@text("--cluster", help="List only the add-ons of this cluster.")
@output_option()
@connection_options
def list_(connection: ClusterConnection, cluster: str, output: str) -> None:
    """List add-ons: where they are enabled, whether they are available, by which driver they got a credential."""

    async def read() -> tuple[Sequence[Object], Sequence[str]]:
        async with connection.client() as client:
            await require_hub(client)
            found = (await client.list(MANAGED_CLUSTER_ADDONS, namespace=cluster)).items
            return found, () if cluster or output != "table" else await AddonAdmin(client).available_addons()

    found, available_addons = run(read())
    if output != "table":
        items = [without_managed_fields(obj) for obj in found]
        kind = f"{MANAGED_CLUSTER_ADDONS.kind}List"
        document = {"apiVersion": MANAGED_CLUSTER_ADDONS.api_version, "kind": kind, "items": items}
        echo(format_document(document, output), nl=False)
        return
    rows = list(decide_each(found, addon_row, _unreadable_row))
    enabled = {name for name, *_ in rows}
    rows += [(name, "-", "-", "-", "-") for name in available_addons if name not in enabled]
    echo(render_table(COLUMNS, rows, width=terminal_width()), nl=False)


def _which(rehearsal: str) -> Callable[[F], F]:
    """Add the options that name add-ons and clusters; the command gets `keys`. `--names` is clusteradm's option."""
    return with_options(
        click.argument("addons", nargs=-1, metavar="ADDON..."),
        click.option("--names", multiple=True, hidden=True, help="The add-ons, separated by commas."),
        click.option("--clusters", "-c", multiple=True, help="Names of the clusters, separated by commas."),
        flag("--dry-run", help=rehearsal),
    )


def _keys(flags: dict[str, Any]) -> list[ObjectKey]:
    names = split([*flags["addons"], *flags["names"]])
    if not names:
        raise click.UsageError("name the add-on: `watchword addon list` shows those that this hub has")
    return [ObjectKey(cluster, name) for cluster in cluster_names(flags["clusters"]) for name in names]


@command.command("enable")
@_which("Validate on the server without changing anything.")
@text("--namespace", "-n", help="Namespace on the cluster in which the add-on is installed.")
@wait_options("the add-on has its credential and is available")
@output_option()
@connection_options
def enable(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Enable add-ons on clusters; what is enabled already stays as it is."""
    keys = _keys(flags)

    async def create() -> list[bool]:
        async with connection.client() as client:
            addon_admin = AddonAdmin(client, print_progress, flags["dry_run"])
            if ADDON_NAME in {key.name for key in keys} and not flags["dry_run"]:
                await AccountsAddonAdmin(client, print_progress).install()
            for name in await addon_admin.find_unknown(key.name for key in keys):
                print_progress(f"add-on {name} is unknown on this hub: is it spelt right? It waits for its manager")
            changed = [await addon_admin.enable(key, flags["namespace"]) for key in keys]
            for key in keys if wait is not None and not flags["dry_run"] else ():
                await addon_admin.wait_until_available(key, wait or timedelta(0))
            return changed

    said = {True: "add-on {} enabled on {}", False: "add-on {} is enabled on {} already"}
    _report(keys, run(create()), said, output, dry_run=flags["dry_run"])


@command.command("disable")
@_which("Print what would be disabled without changing anything.")
@wait_options("everything that it installed is removed")
@output_option()
@connection_options
def disable(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Disable add-ons on clusters: what they installed is removed, and their credentials with it."""
    keys = _keys(flags)

    async def delete() -> list[bool]:
        async with connection.client() as client:
            addon_admin = AddonAdmin(client, print_progress, flags["dry_run"])
            found = [await addon_admin.disable(key) for key in keys]
            for key, addon in zip(keys, found, strict=True):
                if addon is not None and is_reinstalled_by_strategy(addon):
                    print_progress(_will_return(key))
            for key in keys if wait is not None and not flags["dry_run"] else ():
                await addon_admin.wait_until_removed(key, wait or timedelta(0))
            return [addon is not None for addon in found]

    said = {True: "add-on {} disabled on {}", False: "add-on {} is not enabled on {}"}
    _report(keys, run(delete()), said, output, dry_run=flags["dry_run"])


@command.command("uninstall")
@click.argument("addon", type=click.Choice((ADDON_NAME,)))
@option("--timeout", default="2m", help="How long to wait for the clusters to confirm.")
@connection_options
def uninstall(connection: ClusterConnection, addon: str, timeout: str) -> None:
    """Remove a built-in add-on: from every cluster, with all of its objects, and from the hub."""
    patience = parse_duration_flag(timeout, "--timeout")

    async def remove() -> list[str]:
        async with connection.client() as client:
            return await AccountsAddonAdmin(client, print_progress).uninstall(patience)

    clusters = run(remove())
    echo(f"add-on {addon} is removed from the hub and from {', '.join(clusters) or 'no cluster'}")


@command.command("show")
@click.argument("name", metavar="ADDON")
@click.option("--cluster", "--clusters", required=True, help="Name of the cluster.")
@output_option()
@connection_options
def show(connection: ClusterConnection, name: str, cluster: str, output: str) -> None:
    """Show one add-on: its credentials and conditions."""

    async def read() -> Object:
        async with connection.client() as client:
            found = await client.find(MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, name))
            if found is None:
                raise OperationRefused(
                    f"there is no add-on {name} on cluster {cluster}: `watchword addon list` shows all"
                )
            return found

    found = run(read())
    echo(
        describe_addon(found) if output == "table" else format_document(without_managed_fields(found), output), nl=False
    )


def _report(
    keys: Sequence[ObjectKey], changed: Sequence[bool], said: dict[bool, str], output: str, *, dry_run: bool
) -> None:
    if output != "table":
        rows = [
            {"addon": key.name, "cluster": key.namespace, "changed": news}
            for key, news in zip(keys, changed, strict=True)
        ]
        echo(format_document(rows, output), nl=False)
        return
    for key, news in zip(keys, changed, strict=True):
        echo(said[news].format(key.name, key.namespace) + (" (dry run)" if dry_run else ""))


def _will_return(key: ObjectKey) -> str:
    opt_out = f"{Annotation.DISABLE_AUTOMATIC_INSTALLATION}=true"
    return (
        f"add-on {key.name} is installed by its strategy and will return: "
        f"take {key.namespace} out of it, or annotate ManagedCluster {key.namespace} with {opt_out}"
    )
