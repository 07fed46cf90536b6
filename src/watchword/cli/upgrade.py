"""`watchword upgrade`: brings the hub and then the agents to another release."""

from datetime import timedelta
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from watchword.admin.errors import NotFoundOnHub
from watchword.admin.upgrade import Upgrader, UpgradeStep
from watchword.api.names import IMAGE_VARIABLE
from watchword.cli.common_options import change_options, confirm, split
from watchword.cli.connection_options import ClusterConnection, complete_contexts, connection_options
from watchword.cli.discovery_options import parse_duration_flag, print_progress
from watchword.cli.options import option, text
from watchword.cli.output import echo, print_table
from watchword.discovery.cluster_info import cluster_info_from_kubeconfig
from watchword.health.formatting import format_count
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock

COLUMNS = ("COMPONENT", "CONTEXT", "IMAGE", "NEW IMAGE", "STATE")


class _Place(Struct, frozen=True):
    connection: ClusterConnection
    steps: list[UpgradeStep]


@click.command("upgrade")
@text("--image", envvar=IMAGE_VARIABLE, help="Image to upgrade to.")
@click.option(
    "--agent-context",
    "contexts",
    multiple=True,
    shell_complete=complete_contexts,
    help="Contexts of clusters whose agents are upgraded after the hub, separated by commas.",
)
@option("--timeout", default="5m", help="Time limit of each component.")
@change_options("Print what would be upgraded without changing anything.", asks=True)
@connection_options
def command(connection: ClusterConnection, image: str, **flags: Any) -> None:
    """Upgrade the hub of this cluster, then agents.

    The plan is printed and confirmed. Then each component gets the image, and the next one follows once its pods
    run. Agents of an earlier release work with a newer hub. Run `watchword backup --hub` before.
    """
    patience = parse_duration_flag(flags["timeout"], "--timeout")
    places = [connection, *(replace(connection, context=context) for context in split(flags["contexts"]))]
    planned = [_Place(each, each.run(lambda client: _upgrader(client).plan(image))) for each in places]
    rows = [
        (
            step.what,
            place.connection.context or "-",
            step.current,
            step.wanted,
            "outdated" if step.is_needed else "current",
        )
        for place in planned
        for step in place.steps
    ]
    if not rows:
        raise NotFoundOnHub("neither a hub nor an agent is deployed here: name another cluster with --context")
    print_table(COLUMNS, rows)
    due = [(place, step) for place in planned for step in place.steps if step.is_needed]
    if flags["dry_run"] or not due:
        return
    count = format_count(len(due), "component")
    confirm(f"Upgrade {count}?", f"this upgrades {count}", yes=flags["yes"])
    for place, step in due:
        place.connection.run(_work(place, step, patience))
        echo(f"{step.what} upgraded to {step.wanted}")


def _work(place: _Place, step: UpgradeStep, patience: timedelta) -> Any:
    info = cluster_info_from_kubeconfig(place.connection.choice())
    return lambda client: _upgrader(client).apply(step, info, patience)


def _upgrader(client: Client) -> Upgrader:
    return Upgrader(client, SystemClock(), print_progress)
