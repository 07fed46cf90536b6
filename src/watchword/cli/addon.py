"""`watchword addon`: the add-ons of a hub's clusters."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.addons import AccountsAddonAdmin, AddonAdmin, is_reinstalled_by_strategy
from watchword.admin.lookup import get_named
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import CUSTOM_SIGNER, Addon, Registration
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.credential_report import parse_validity
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_ADDONS
from watchword.cli.connection_options import ClusterConnection, cluster_options, clusters_option, connection_options
from watchword.cli.lists import ListRequest, list_options, object_listing, of_objects, print_list
from watchword.cli.options import argument, duration, flag, many, named, split, with_options
from watchword.cli.output import confirm, echo, print_progress, show_result, without_managed_fields
from watchword.kube.client import Client

COLUMNS = ("NAME", "CLUSTER", "AVAILABLE", "DRIVER", "CREDENTIAL")


def addon_row(obj: Object, _: datetime | None = None) -> tuple[str, ...]:
    if obj["kind"] == CLUSTER_MANAGEMENT_ADDONS.kind:
        return obj["metadata"]["name"], "-", "-", "-", "-"
    addon = Addon.read(obj)
    available = find_condition(obj, ConditionType.ADDON_AVAILABLE)
    said = ADDON_CATALOG.find_credential(addon)
    granted = find_condition(obj, ConditionType.REGISTRATION_APPLIED)
    credential = "" if said is None else ("good" if said.status == "True" else said.reason)
    if granted is not None and granted.status == "False":
        credential = f"no rights: {granted.reason}"
    state = "Deleting" if addon.deleting else available.status if available is not None else "Unknown"
    return addon.name, addon.cluster, state, addon.driver or "-", credential or "-"


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
            validity = parse_validity(str(row["message"]))
            ended = validity is not None and validity.expires is not None and validity.expires <= datetime.now(UTC)
            lines.append(f"    {row['message']}{' (expired)' if ended else ''}")
    return "\n".join(lines) + "\n"


def _registration(addon: Addon, row: Registration) -> str:
    by_driver = f"for the hub, by {row.driver or '(not declared)'}"
    how = f"from signer {row.signer}" if row.type == CUSTOM_SIGNER else by_driver
    who = row.subject.user or "(not declared)"
    return f"{row.secret_name(addon.name)}, {how}, as {who}"


@click.group("addon")
def command() -> None:
    """Enable, disable and show the add-ons of clusters."""


async def _read(client: Client, request: ListRequest) -> list[Object]:
    """Return the add-ons of clusters; a table of all also shows those that the hub has and that are enabled nowhere."""
    found = await of_objects(MANAGED_CLUSTER_ADDONS)(client, request)
    if request.output not in ("table", "wide") or request.namespace or request.selector:
        return found
    enabled = {obj["metadata"]["name"] for obj in found}
    idle = [name for name in await AddonAdmin(client).available_addons() if name not in enabled]
    return [*found, *(CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name)) for name in idle)]


@command.command("list")
@list_options("List only the add-ons of this cluster.", cluster=True)
@connection_options
def list_(connection: ClusterConnection, request: ListRequest) -> None:
    """List add-ons: where they are enabled, whether they are available, by which driver they got a credential."""
    print_list(connection, object_listing(MANAGED_CLUSTER_ADDONS, COLUMNS, addon_row, read=_read), request)


_which = with_options(
    argument("addons", nargs=-1, metavar="ADDON..."),
    many("--names", hidden=True, help="The add-ons, separated by commas."),  # of clusteradm
    clusters_option("Names of the clusters, separated by commas."),
)


def _keys(flags: dict[str, Any]) -> list[ObjectKey]:
    names = split([*flags["addons"], *flags["names"]])
    if not names:
        raise click.UsageError("name the add-on: `watchword addon list` shows those that this hub has")
    return [ObjectKey(cluster, name) for cluster in flags["clusters"] for name in names]


@command.command("enable")
@_which
@named("--namespace", "-n", default="", help="Namespace on the cluster in which the add-on is installed.")
@flag("--force", help="Enable add-ons that this hub does not know; they wait for their manager.")
@cluster_options(dry_run=True, wait="the add-on has its credential and is available", output=True)
async def enable(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Enable add-ons on clusters; what is enabled already stays as it is."""
    keys, dry_run = _keys(flags), flags["dry_run"]
    async with connection.client() as client:
        addon_admin = AddonAdmin(client, print_progress, dry_run)
        if not flags["force"]:
            await addon_admin.require_known(key.name for key in keys)
        if ADDON_NAME in {key.name for key in keys} and not dry_run:
            await AccountsAddonAdmin(client, print_progress).install()
        changed = [await addon_admin.enable(key, flags["namespace"]) for key in keys]
        waiter = ObjectWaiter(client, wait or timedelta(0), print_progress)
        for key in keys if wait is not None and not dry_run else ():
            await addon_admin.wait_until_available(key, waiter)
    said = {True: "add-on {} enabled on {}", False: "add-on {} is enabled on {} already"}
    _report(keys, changed, said, output, dry_run=dry_run)


@command.command("disable")
@_which
@cluster_options(
    dry_run="Print what would be disabled without changing anything.",
    wait="everything that the add-ons installed is removed",
    output=True,
)
async def disable(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Disable add-ons on clusters: what they installed is removed, and their credentials with it."""
    keys, dry_run = _keys(flags), flags["dry_run"]
    async with connection.client() as client:
        addon_admin = AddonAdmin(client, print_progress, dry_run)
        found = [await addon_admin.disable(key) for key in keys]
        for key, addon in zip(keys, found, strict=True):
            if addon is not None and is_reinstalled_by_strategy(addon):
                print_progress(_will_return(key))
        waiter = ObjectWaiter(client, wait or timedelta(0), print_progress)
        for key in keys if wait is not None and not dry_run else ():
            await addon_admin.wait_until_removed(key, waiter)
    said = {True: "add-on {} disabled on {}", False: "add-on {} is not enabled on {}"}
    _report(keys, [addon is not None for addon in found], said, output, dry_run=dry_run)


@command.command("uninstall")
@click.argument("addon", type=click.Choice((ADDON_NAME,)))
@duration("--timeout", "patience", default="2m", help="How long to wait for the clusters to confirm.")
@cluster_options(dry_run="Print the clusters that have the add-on without changing anything.", asks=True)
async def uninstall(
    connection: ClusterConnection, addon: str, patience: timedelta, *, dry_run: bool, yes: bool
) -> None:
    """Remove a built-in add-on: from every cluster, with all of its objects, and from the hub."""
    async with connection.client() as client:
        found = (await client.list(MANAGED_CLUSTER_ADDONS)).items
        clusters = sorted(key.namespace for key in map(ObjectKey.of, found) if key.name == addon)
        if not dry_run:
            lost = f"all of its accounts on {', '.join(clusters) or 'no cluster'}"
            confirm(f"Remove add-on {addon} and {lost}?", "", yes=yes, needs_terminal=False)
            clusters = await AccountsAddonAdmin(client, print_progress).uninstall(patience)
    would = "would be" if dry_run else "is"
    echo(f"add-on {addon} {would} removed from the hub and from {', '.join(clusters) or 'no cluster'}")


@command.command("show")
@argument("name", metavar="ADDON")
@named("--cluster", "--clusters", "-c", required=True, help="Name of the cluster.")
@cluster_options(output=True)
async def show(connection: ClusterConnection, name: str, cluster: str, output: str) -> None:
    """Show one add-on: its credentials and conditions."""
    async with connection.client() as client:
        found = await get_named(client, MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, name))
    show_result(without_managed_fields(found), output, lambda: describe_addon(found))


def _report(
    keys: Sequence[ObjectKey], changed: Sequence[bool], said: dict[bool, str], output: str, *, dry_run: bool
) -> None:
    rows = list(zip(keys, changed, strict=True))
    documents = [{"addon": key.name, "cluster": key.namespace, "changed": is_changed} for key, is_changed in rows]
    suffix = " (dry run)" if dry_run else ""
    lines = [said[is_changed].format(key.name, key.namespace) + suffix for key, is_changed in rows]
    show_result(documents, output, lambda: "\n".join(lines))


def _will_return(key: ObjectKey) -> str:
    opt_out = f"{Annotation.DISABLE_AUTOMATIC_INSTALLATION}=true"
    return (
        f"add-on {key.name} is installed by its strategy and will return: "
        f"take {key.namespace} out of it, or annotate ManagedCluster {key.namespace} with {opt_out}"
    )
