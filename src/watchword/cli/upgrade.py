"""`watchword upgrade`: brings the hub and then the agents to another release."""

from typing import Any

import click
from msgspec.structs import replace

from watchword.admin.errors import NotFoundOnHub
from watchword.admin.upgrade import Upgrader, UpgradeStep
from watchword.api.names import IMAGE_VARIABLE
from watchword.cli.connection_options import ClusterConnection, cluster_options, complete_contexts
from watchword.cli.options import duration, many, split, text
from watchword.cli.output import confirm, echo, print_progress, print_table
from watchword.discovery.cluster_info import cluster_info_from_kubeconfig
from watchword.health.formatting import format_count
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock

COLUMNS = ("COMPONENT", "CONTEXT", "IMAGE", "NEW IMAGE", "STATE")


@click.command("upgrade")
@text("--image", envvar=IMAGE_VARIABLE, help="Image to upgrade to.")
@many(
    "--agent-context",
    "contexts",
    shell_complete=complete_contexts,
    help="Contexts of clusters whose agents are upgraded after the hub, separated by commas.",
)
@duration("--timeout", default="5m", help="Time limit of each component.")
@cluster_options(dry_run="Print what would be upgraded without changing anything.", asks=True)
async def command(connection: ClusterConnection, image: str, **flags: Any) -> None:
    """Upgrade the hub of this cluster, then agents.

    The plan is printed and confirmed. Then each component gets the image, and the next one follows once its pods
    run. Agents of an earlier release work with a newer hub. Run `watchword backup --hub` before.
    """
    places = [connection, *(replace(connection, context=context) for context in split(flags["contexts"]))]
    planned: list[tuple[ClusterConnection, UpgradeStep]] = []
    for place in places:
        async with place.client() as client:
            planned += [(place, step) for step in await _upgrader(client).plan(image)]
    if not planned:
        raise NotFoundOnHub("neither a hub nor an agent is deployed here: name another cluster with --context")
    rows = [
        (step.what, place.context or "-", step.current, step.wanted, "outdated" if step.is_needed else "current")
        for place, step in planned
    ]
    print_table(COLUMNS, rows)
    due = [(place, step) for place, step in planned if step.is_needed]
    if flags["dry_run"] or not due:
        return
    count = format_count(len(due), "component")
    confirm(f"Upgrade {count}?", f"this upgrades {count}", yes=flags["yes"])
    for place, step in due:
        info = cluster_info_from_kubeconfig(place.choice())
        async with place.client() as client:
            await _upgrader(client).apply(step, info, flags["timeout"])
        echo(f"{step.what} upgraded to {step.wanted}")


def _upgrader(client: Client) -> Upgrader:
    return Upgrader(client, SystemClock(), print_progress)
