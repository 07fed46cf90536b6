"""`watchword work`: the ManifestWorks by which a hub applies objects to its clusters."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from watchword.admin.errors import InvalidInput, OperationRefused
from watchword.admin.lookup import get_named, no_namespace_of
from watchword.admin.wait import ObjectWaiter, validate_applied
from watchword.api import yaml
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.meta import Object, ObjectKey, list_at, mapping_at, uid_of
from watchword.api.names import ConditionType
from watchword.api.resources import MANIFEST_WORKS
from watchword.cli.clusters import format_object_age
from watchword.cli.connection_options import ClusterConnection, cluster_options, clusters_option, connection_options
from watchword.cli.lists import ListRequest, list_options, object_listing, print_list
from watchword.cli.options import argument, file_option, flag, named
from watchword.cli.output import confirm, echo, print_progress, show_result, without_managed_fields
from watchword.health.hub_reader import require_hub
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.kube.files import read_small_file

COLUMNS = ("NAME", "CLUSTER", "APPLIED", "AVAILABLE", "MANIFESTS", "AGE")


@click.group("work")
def command() -> None:
    """Apply objects to clusters through the hub, and show their status.

    A work is a list of manifests in the namespace of a cluster. The cluster's agent applies them, corrects what is
    changed, and removes them with the work.
    """


def work_row(obj: Object, now: datetime) -> tuple[str, ...]:
    said = (find_condition(obj, each) for each in (ConditionType.WORK_APPLIED, ConditionType.WORK_AVAILABLE))
    states = [condition.status if condition is not None else "-" for condition in said]
    key, count = ObjectKey.of(obj), len(mapping_at(obj, "spec", "workload").get("manifests") or ())
    return key.name, key.namespace, *states, str(count), format_object_age(obj, now)


@command.command("list")
@list_options("List only the works of this cluster.", cluster=True)
@connection_options
def list_(connection: ClusterConnection, request: ListRequest) -> None:
    """List works: on which cluster, whether they are applied and available."""
    print_list(connection, object_listing(MANIFEST_WORKS, COLUMNS, work_row), request)


@command.command("show")
@argument("name")
@named("--cluster", "-c", required=True, help="Name of the cluster.")
@cluster_options(output=True)
async def show(connection: ClusterConnection, name: str, cluster: str, output: str) -> None:
    """Show one work: its manifests and the status of each."""
    async with connection.client() as client:
        found = await get_named(client, MANIFEST_WORKS, ObjectKey(cluster, name))
    show_result(without_managed_fields(found), output, lambda: describe_work(found))


def describe_work(obj: Object) -> str:
    key = ObjectKey.of(obj)
    lines = [f"Name:       {key.name}", f"Cluster:    {key.namespace}"]
    lines += [
        f"{row.get('type')}: {row.get('status')} ({row.get('reason')}) {row.get('message', '')}".rstrip()
        for row in conditions_of(obj)
    ]
    lines.append("Manifests:")
    for row in mapping_at(obj, "status", "resourceStatus").get("manifests") or ():
        meta = row.get("resourceMeta") or {}
        where = f"{meta['namespace']}/" if meta.get("namespace") else ""
        failed = [each for each in row.get("conditions") or () if each.get("status") != "True"]
        said = "; ".join(f"{each.get('type')}: {each.get('message')}" for each in failed) or "applied"
        lines.append(f"  {meta.get('kind')} {where}{meta.get('name')}: {said}")
    return "\n".join(lines)


@command.command("create")
@argument("name")
@file_option(
    "--filename", "-f", "files", multiple=True, required=True, help="File with manifests (YAML or JSON); repeatable."
)
@clusters_option("Names of the clusters, separated by commas.")
@flag("--overwrite", help="Replace the manifests of a work that exists.")
@cluster_options(dry_run=True, wait="the clusters have applied it")
async def create(connection: ClusterConnection, name: str, wait: timedelta | None, **flags: Any) -> None:
    """Create a work on clusters from files with manifests."""
    manifests = [row for path in flags["files"] for row in read_manifests(path)]
    keys = [ObjectKey(cluster, name) for cluster in flags["clusters"]]
    spec = {"workload": {"manifests": manifests}}
    async with connection.client() as client:
        for key in keys:
            done = await _create(client, key, spec, overwrite=flags["overwrite"], dry_run=flags["dry_run"])
            echo(f"work {key.name} {done} on {key.namespace}{' (dry run)' if flags['dry_run'] else ''}")
        waiter = ObjectWaiter(client, wait or timedelta(0), print_progress)
        for key in keys if wait is not None and not flags["dry_run"] else ():
            advice = f"`watchword work show {key.name} --cluster {key.namespace}` shows the status of each manifest"
            await waiter.until(MANIFEST_WORKS, key, validate_applied, advice=advice)
            echo(f"work {key.name} applied on {key.namespace}")


async def _create(client: Client, key: ObjectKey, spec: Object, *, overwrite: bool, dry_run: bool) -> str:
    try:
        await client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(key, spec=spec), dry_run=dry_run)
    except AlreadyExists as cause:
        if not overwrite:
            raise OperationRefused(
                f"there is a work {key.name} on {key.namespace}: give --overwrite to replace its manifests"
            ) from cause
        await client.patch(MANIFEST_WORKS, key, {"spec": spec}, dry_run=dry_run)
        return "changed"
    except NotFound as cause:
        await require_hub(client)
        raise no_namespace_of(key.namespace) from cause
    return "created"


def read_manifests(path: Path) -> list[Object]:
    """Return the manifests of a file; `InvalidInput` when something in it is none."""
    try:
        documents = yaml.load_all(read_small_file(path, "manifests", limit=MAX_DOCUMENT_BYTES))
    except yaml.YamlError as objection:
        raise InvalidInput(f"{path}: {objection}") from objection
    rows = [row for each in documents if each for row in (list_at(each, "items") or [each])]
    for row in rows:
        is_object = isinstance(row, dict) and row.get("apiVersion") and row.get("kind")
        if not is_object or not mapping_at(row, "metadata").get("name"):
            raise InvalidInput(f"{path}: a manifest needs apiVersion, kind and metadata.name")
    if not rows:
        raise InvalidInput(f"{path} has no manifests")
    return rows


@command.command("delete")
@argument("names", nargs=-1, required=True, metavar="NAME...")
@clusters_option("Names of the clusters, separated by commas.")
@cluster_options(
    dry_run="Print what would be deleted without changing anything.",
    asks=True,
    wait="the clusters have removed the applied objects",
)
async def delete(connection: ClusterConnection, names: tuple[str, ...], wait: timedelta | None, **flags: Any) -> None:
    """Delete works: what they applied is removed from their clusters."""
    keys = [ObjectKey(cluster, name) for cluster in flags["clusters"] for name in names]
    async with connection.client() as client:
        found = {key: await get_named(client, MANIFEST_WORKS, key) for key in keys}
        yes = flags["yes"] or flags["dry_run"]
        confirm(f"Delete {', '.join(map(str, keys))}?", "", yes=yes, needs_terminal=False)
        for key in keys:
            if not flags["dry_run"]:
                await client.delete(MANIFEST_WORKS, key, uid=uid_of(found[key]))
            echo(f"work {key.name} deleted from {key.namespace}{' (dry run)' if flags['dry_run'] else ''}")
        waiter = ObjectWaiter(client, wait or timedelta(0), print_progress)
        for key in keys if wait is not None and not flags["dry_run"] else ():
            await waiter.until_gone(MANIFEST_WORKS, key, advice="check that the cluster's agent runs")
