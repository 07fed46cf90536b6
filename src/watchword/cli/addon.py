"""`watchword addon`: the add-ons of a hub's clusters."""

from __future__ import annotations

from collections.abc import Sequence

import click

from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.cli.addon_output import COLUMNS, addon_row, describe_addon, write_documents
from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.tables import render_table, terminal_width
from watchword.kube.errors import AlreadyExists
from watchword.runtime.loop import run

FORMATS = ("text", "json", "yaml")


@click.group("addon")
def command() -> None:
    """Enable, disable and look at the add-ons of a hub's clusters."""


@command.command("list")
@click.option("--cluster", default="", help="Only those of one cluster.")
@click.option("--output", "-o", type=click.Choice(FORMATS), default=FORMATS[0], help="How to print them.")
@connection_options
def list_(connection: Connection, cluster: str, output: str) -> None:
    """List add-ons: where they are enabled, whether they are available, by which driver they got a credential."""

    async def read() -> Sequence[Object]:
        async with connection.client() as client:
            return (await client.list(MANAGED_CLUSTER_ADDONS, namespace=cluster)).items

    found = run(read())
    if output != "text":
        click.echo(write_documents(found, output), nl=False)
        return
    rows = [addon_row(obj) for obj in found]
    click.echo(render_table(COLUMNS, rows, width=terminal_width()), nl=False)


@command.command("enable")
@click.argument("names", nargs=-1, required=True, metavar="ADDON...")
@click.option("--clusters", required=True, help="On which clusters, separated by commas.")
@click.option("--namespace", default="", help="Where it is installed on the cluster.")
@click.option("--dry-run", is_flag=True, help="Ask the server whether it would do it, and change nothing.")
@connection_options
def enable(connection: Connection, names: tuple[str, ...], clusters: str, namespace: str, dry_run: bool) -> None:  # noqa: FBT001 - a flag
    """Enable add-ons on clusters; what is enabled already stays as it is."""
    metadata = {"annotations": {Annotation.INSTALL_NAMESPACE: namespace}} if namespace else {}

    async def create() -> None:
        async with connection.client() as client:
            for key in (ObjectKey(cluster, name) for cluster in _split(clusters) for name in names):
                addon = MANAGED_CLUSTER_ADDONS.manifest(key, metadata=dict(metadata), spec={})
                try:
                    await client.create(MANAGED_CLUSTER_ADDONS, addon, dry_run=dry_run)
                except AlreadyExists:
                    click.echo(f"add-on {key.name} is enabled on {key.namespace} already")
                else:
                    click.echo(f"add-on {key.name} enabled on {key.namespace}{_note(dry_run=dry_run)}")

    run(create())


@command.command("disable")
@click.argument("names", nargs=-1, required=True, metavar="ADDON...")
@click.option("--clusters", required=True, help="On which clusters, separated by commas.")
@connection_options
def disable(connection: Connection, names: tuple[str, ...], clusters: str) -> None:
    """Disable add-ons on clusters: what they installed is removed, and their credentials with it."""

    async def delete() -> None:
        async with connection.client() as client:
            for key in (ObjectKey(cluster, name) for cluster in _split(clusters) for name in names):
                found = await client.find(MANAGED_CLUSTER_ADDONS, key)
                if found is None:
                    click.echo(f"add-on {key.name} is not enabled on {key.namespace}")
                    continue
                if Annotation.ADDON_INSTALLED_BY in annotations_of(found):
                    click.echo(_will_return(key), err=True)
                await client.delete(MANAGED_CLUSTER_ADDONS, key)
                click.echo(f"add-on {key.name} disabled on {key.namespace}")

    run(delete())


@command.command("show")
@click.argument("name", metavar="ADDON")
@click.option("--cluster", required=True, help="On which cluster.")
@click.option("--output", "-o", type=click.Choice(FORMATS), default=FORMATS[0], help="How to print it.")
@connection_options
def show(connection: Connection, name: str, cluster: str, output: str) -> None:
    """Show one add-on: its credentials, and everything that is said about it."""

    async def read() -> Object:
        async with connection.client() as client:
            return await client.get(MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, name))

    found = run(read())
    click.echo(describe_addon(found) if output == "text" else write_documents([found], output), nl=False)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _will_return(key: ObjectKey) -> str:
    opt_out = f"{Annotation.DISABLE_AUTOMATIC_INSTALLATION}=true"
    return (
        f"add-on {key.name} is installed by its strategy and will return: "
        f"take {key.namespace} out of it, or annotate ManagedCluster {key.namespace} with {opt_out}"
    )


def _note(*, dry_run: bool) -> str:
    return " (dry run)" if dry_run else ""
